#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "mpi/mpi_session.hpp"
#include "mpi/wait.hpp"

namespace {

/// The ranks at which `mine` holds.
std::string ranks_where(bool mine) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int flag = mine ? 1 : 0;
  std::vector<int> flags(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&flag, 1, MPI_INT, flags.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
  halograd::wait_politely(request);
  std::ostringstream ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (flags[static_cast<std::size_t>(rank)] != 0) ranks << (ranks.tellp() > 0 ? ", " : "") << rank;
  }
  return ranks.str();
}

/// Prints a rank's failures as they happen (a test that then hangs has said why), and makes a test fail on rank 0 when
/// it failed on another one, which also keeps the ranks in the same test.
class RankListener : public ::testing::EmptyTestEventListener {
 public:
  explicit RankListener(int rank) : rank_(rank) {}

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (rank_ == 0 || !result.failed()) return;  // rank 0 has GoogleTest's own printer
    std::ostringstream text;
    text << "[rank " << rank_ << "] " << (result.file_name() != nullptr ? result.file_name() : "unknown file") << ":"
         << result.line_number() << ": Failure\n"
         << result.message() << "\n";
    std::fputs(text.str().c_str(), stderr);
    std::fflush(stderr);
  }

  void OnTestEnd(const ::testing::TestInfo& test) override {
    const bool failed_here = test.result()->Failed();
    const std::string failed = ranks_where(failed_here);
    if (rank_ == 0 && !failed.empty() && !failed_here) ADD_FAILURE() << test.name() << " failed on rank " << failed;
  }

 private:
  int rank_;
};

int run_tests(int rank, int size) {
  // A launcher of another MPI than the one linked starts that many programs of one rank each, and all would pass.
  const char* expected = std::getenv("HALOGRAD_TEST_RANKS");
  if (expected != nullptr && std::stoi(expected) != size) {
    std::fprintf(stderr, "expected %s ranks, MPI says %d: does the launcher belong to the MPI that is linked?\n",
                 expected, size);
    return EXIT_FAILURE;
  }
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankListener(rank));
  const bool failed_here = RUN_ALL_TESTS() != 0;
  return ranks_where(failed_here).empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

/// The main function of every test executable that is run under an MPI launcher. Only rank 0 reports progress.
int main(int argc, char* argv[]) {
  ::testing::InitGoogleTest(&argc, argv);
  halograd::MpiSession session(argc, argv);  // ends the process where MPI_Finalize may hang
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const int status = run_tests(session.comm().rank(), session.comm().ranks());
  session.end_with(status);
  return status;
}
