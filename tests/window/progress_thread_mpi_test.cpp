#include "window/progress_thread.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/ranks.hpp"
#include "tests/window/device_halos.hpp"
#include "window/halo_transport.hpp"
#include "window/progress_hook.hpp"

namespace halograd::progress_thread_mpi_test {
namespace {

using namespace std::chrono_literals;

/// The last rank computes, for `most` at most, until what rank 0 writes has come: whether it has. True on the other
/// ranks.
bool arrives_while_computing(const Communicator& comm, std::chrono::milliseconds most, Carrier carrier) {
  const int target = comm.ranks() - 1;
  const std::vector<float> halo(100'000, 3);
  HaloTransport transport(comm.handle(), sizeof(std::int64_t) + halo.size() * sizeof(float), {2, true}, carrier);
  for (const int other : {0, target}) {
    if (comm.rank() != other && (comm.rank() == 0 || comm.rank() == target)) transport.peer(other);
  }
  transport.start();
  bool arrived = true;
  if (comm.rank() == target) {
    MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, comm.handle());
    std::int64_t* counter = transport.counter(0);
    const auto end = std::chrono::steady_clock::now() + most;
    while (HaloTransport::load(counter) == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(1ms);
    }
    arrived = HaloTransport::load(counter) == 1;
    if (arrived) {
      EXPECT_EQ(transport.values(sizeof(std::int64_t), halo.size())[halo.size() - 1], 3);
    }
  }
  if (comm.rank() == 0) {
    // not while the other is still in the barrier of start(), and MPI progresses there
    MPI_Recv(nullptr, 0, MPI_BYTE, target, 0, comm.handle(), MPI_STATUS_IGNORE);
    HaloTransport::Peer& peer = transport.peer(target);
    transport.write(peer, sizeof(std::int64_t), HostVector<const float>(halo.data(), halo.size()));
    transport.announce({{peer, 0, 1}});
  }
  comm.barrier();
  return arrived;
}

TEST(ProgressThread, BringsPutsAndMessagesWhileTheReaderComputes) {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.ranks() == 1) GTEST_SKIP() << "one rank has nobody to write to";
  const ProgressThread progress(MPI_COMM_WORLD, 200);
  EXPECT_TRUE(arrives_while_computing(comm, 20s, Carrier::put));
  EXPECT_TRUE(arrives_while_computing(comm, 20s, Carrier::send));
  // It may have been served within the thread's first burst, whose time is not counted yet.
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (progress.seconds() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  EXPECT_GT(progress.seconds(), 0);
}

TEST(BurstPause, GrowsWhileThereIsNothingToDo) {
  BurstPause pause(100us);
  EXPECT_EQ(pause.after(20e-6), 200us);
  EXPECT_EQ(pause.after(70e-6), 400us);
  EXPECT_EQ(pause.after(20e-6), 800us);
  EXPECT_EQ(pause.after(30e-6), 800us);
  EXPECT_EQ(pause.after(90e-6), 100us);  // something came
  EXPECT_EQ(pause.after(500e-6), 100us);
  EXPECT_EQ(pause.after(20e-6), 200us);
  EXPECT_EQ(pause.after(10e-6), 400us);  // the shortest one so far is what counts from now on
  EXPECT_EQ(pause.after(50e-6), 100us);
}

TEST(ProgressThread, IsMadeWhereAPutDoesNotComeWithoutIt) {
  const Communicator comm(MPI_COMM_WORLD);
  CommConfig config;
  config.force_put = true;
  const bool alone = progresses_by_itself(MPI_COMM_WORLD, true);
  EXPECT_EQ(alone, comm.smallest(alone ? 1 : 0) == 1);  // all agree
  EXPECT_EQ(make_progress_thread(config, MPI_COMM_WORLD, 1) == nullptr, alone);
  if (comm.ranks() > 1) {
    EXPECT_EQ(arrives_while_computing(comm, 300ms, Carrier::put), alone || comm.rank() != comm.ranks() - 1);
  }
}

TEST(ProgressThread, IsMadeForDeviceMemoryInsideANodeToo) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  const Communicator comm(MPI_COMM_WORLD);
  const bool alone = progresses_by_itself(MPI_COMM_WORLD, false, HaloMemory::device);
  EXPECT_EQ(alone, comm.smallest(alone ? 1 : 0) == 1);  // all agree
  EXPECT_EQ(make_progress_thread({}, MPI_COMM_WORLD, 1, HaloMemory::device) == nullptr, alone);
}

TEST(ProgressThread, IsMadeWhereMessagesAreToBeReceived) {
  CommConfig config;
  const HaloTransport transport(MPI_COMM_WORLD, 64, {2, true}, Carrier::send);
  EXPECT_NE(make_progress_thread(config, MPI_COMM_WORLD, 1), nullptr);
  config.progress_us = 0;
  EXPECT_EQ(make_progress_thread(config, MPI_COMM_WORLD, 1), nullptr);
}

TEST(ProgressHook, RunsOnTheThreadAsLongAsItExists) {
  const Communicator comm(MPI_COMM_WORLD);
  std::atomic<long> runs = 0;
  const ProgressThread progress(MPI_COMM_WORLD, 100);
  {
    const ProgressHook hook([&] { ++runs; });
    EXPECT_TRUE(ProgressHook::any());
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (runs < 3 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_GE(runs, 3);
  }
  const long before = runs;
  ProgressHook::run_all();
  EXPECT_EQ(runs, before);
  comm.barrier();
}

TEST(ProgressThread, IsNotMadeWhereItIsNotNeeded) {
  CommConfig config;
  EXPECT_EQ(make_progress_thread(config, MPI_COMM_WORLD, 1), nullptr);  // one node: stores
  config.force_put = true;
  config.progress_us = 0;
  EXPECT_EQ(make_progress_thread(config, MPI_COMM_WORLD, 2), nullptr);
}

}  // namespace
}  // namespace halograd::progress_thread_mpi_test
