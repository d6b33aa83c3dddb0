#include "io/file_worker.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/communicator.hpp"
#include "tests/io/mpi_helpers.hpp"

namespace halograd::file_worker_mpi_test {
namespace {

using namespace test;

TEST(FileWorker, TasksRunInOrderBesideTheTraining) {
  std::vector<int> done;
  FileWorker worker(MPI_COMM_WORLD);
  for (int task = 0; task < 50; ++task) {
    worker.post([&, task] {
      worker.comm().barrier();  // collective, while the training is in collective calls of its own
      done.push_back(task);
    });
    std::this_thread::sleep_for(std::chrono::microseconds((rank_of() + 1) * 50));
    meet();
  }
  worker.wait();
  ASSERT_EQ(done.size(), 50U);
  for (int task = 0; task < 50; ++task) EXPECT_EQ(done[static_cast<std::size_t>(task)], task);
  EXPECT_EQ(worker.pending(), 0U);
  EXPECT_EQ(worker.error().message, "");
}

TEST(FileWorker, AFailureIsKeptAndEndsIt) {
  bool later = false;
  FileWorker worker(MPI_COMM_WORLD);
  worker.post([&] {
    worker.comm().together([] {
      if (rank_of() == ranks_of() - 1) throw MachineError("the disk is gone");
    });
  });
  worker.post([&] { later = true; });
  EXPECT_EQ(error_of([&] { worker.wait(); }), "the disk is gone");
  EXPECT_EQ(worker.error().message, "the disk is gone");
  EXPECT_EQ(worker.error().foreign, rank_of() == ranks_of() - 1 ? Foreign::this_rank : Foreign::another_rank);
  worker.post([&] { later = true; });
  EXPECT_THROW(worker.wait(), CollectiveError);
  EXPECT_FALSE(later);
  EXPECT_FALSE(CollectiveError::exists());  // another exception may yet unwind one rank alone
}

TEST(FileWorker, WhatWasPostedIsDoneBeforeItEnds) {
  int done = 0;
  {
    FileWorker worker(MPI_COMM_WORLD);
    for (int task = 0; task < 20; ++task) worker.post([&] { ++done; });
  }
  EXPECT_EQ(done, 20);
}

}  // namespace
}  // namespace halograd::file_worker_mpi_test
