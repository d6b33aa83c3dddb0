#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/mpi/ranks.hpp"

namespace halograd::yielding_progress_mpi_test {
namespace {

/// Without what ctest preloads, eight ranks on two cores would spin against each other.
TEST(YieldingProgress, GivesTheCoreAwayWhileARankWaitsInMpi) {
  const auto* const yields = static_cast<const std::atomic<long>*>(dlsym(RTLD_DEFAULT, "halograd_test_yields"));
  if (yields == nullptr) GTEST_SKIP() << "not preloaded: another MPI than MPICH, sanitizers, or not started by ctest";
  if (all_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  const int last = all_ranks() - 1;
  const long before = *yields;
  if (this_rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    MPI_Send(nullptr, 0, MPI_BYTE, last, 0, MPI_COMM_WORLD);
  } else if (this_rank() == last) {
    MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_GT(*yields, before);
  }
}

}  // namespace
}  // namespace halograd::yielding_progress_mpi_test
