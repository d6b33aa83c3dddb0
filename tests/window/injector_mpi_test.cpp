// What goes wrong on purpose does so as asked for, and the counts of what came over an edge say so.
#include "window/injector.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "averagers/averager.hpp"
#include "mpi/communicator.hpp"
#include "mpi/rank_clock.hpp"
#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/window/device_halos.hpp"
#include "window/halo_window.hpp"
#include "window/progress_hook.hpp"
#include "window/progress_thread.hpp"

namespace halograd::injector_mpi_test {
namespace {

Topology ring() {
  return make_topology(TopologyConfig{}, all_ranks());
}

std::int64_t shifted_clock() {
  return node_clock() - 100'000'000'000LL * this_rank();
}

TEST(Injector, LosesTheShareOfHalosThatItIsToldTo) {
  InjectConfig config;
  config.drop_fraction = 0.3;
  const Injector injector(config);
  config.seed = 2;
  const Injector other(config);
  int lost = 0, both = 0;
  constexpr int versions = 20000;
  for (int version = 0; version < versions; ++version) {
    lost += injector.drops(3, 4, version) ? 1 : 0;
    both += injector.drops(3, 4, version) && other.drops(3, 4, version) ? 1 : 0;
  }
  EXPECT_NEAR(lost, 0.3 * versions, 4 * std::sqrt(0.21 * versions));
  EXPECT_NEAR(both, 0.09 * versions, 4 * std::sqrt(0.0819 * versions));
  EXPECT_FALSE(Injector().drops(3, 4, 5));
}

TEST(Injector, SendsOneMessageAfterTheOther) {
  InjectConfig config;
  config.latency_us = 5;
  config.bandwidth_mb = 2;  // a byte in 500 ns
  Injector injector(config);
  EXPECT_EQ(injector.arrives(1000, 10), 1000 + 5000 + 5000);
  EXPECT_EQ(injector.all_left(), 6000);
  EXPECT_EQ(injector.leaves(2000, 4), 6000 + 2000);                // waits for the first
  EXPECT_EQ(injector.arrives(100'000, 2), 100'000 + 1000 + 5000);  // finds the link free
  EXPECT_EQ(injector.ring_arrives(200'000, 3, 8), 200'000 + 4000 + 4 * 5000);
  Injector none;
  EXPECT_EQ(none.arrives(1000, 1'000'000), 1000);
  EXPECT_EQ(none.arrives(500, 1), 1000);  // but never before an earlier one
}

TEST(Injector, SlowsOneRankDown) {
  InjectConfig config;
  config.slow_rank = 1;
  config.slow_factor = 3;
  const auto begin = std::chrono::steady_clock::now();
  Injector(config).slow_down(1, 0.01);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  Injector(config).slow_down(0, 1e9);  // would never end
}

TEST(Injector, HoldsUpEachStepOfAllRanks) {
  InjectConfig config;
  config.compute_us = 10000;
  config.slow_rank = 1;
  config.slow_factor = 3;
  for (const auto& [rank, least] : {std::pair{0, 8}, std::pair{1, 28}}) {
    const auto begin = std::chrono::steady_clock::now();
    Injector(config).slow_down(rank, 0.002);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(least)) << rank;
  }
  Injector(config).slow_down(0, 1e9);
}

TEST(RankClock, FindsTheOffsetOfAnotherClock) {
  const std::int64_t offset = clock_offset(MPI_COMM_WORLD, shifted_clock);
  EXPECT_NEAR(static_cast<double>(offset), 1e11 * this_rank(), 1e8);
  const RankClock clock(MPI_COMM_WORLD);
  std::int64_t before = clock.now(), after = 0;
  Communicator(MPI_COMM_WORLD).barrier();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &before, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD, &request);
  wait_politely(request);
  after = clock.now();
  EXPECT_GT(after, before - 1'000'000);  // what comes after a barrier is later on every rank's clock
}

class Latency : public testing::TestWithParam<std::string> {};

TEST_P(Latency, NoHaloIsTakenBeforeItIsOver) {
  if (GetParam() == "device" && !device_halos_work()) GTEST_SKIP() << no_device_halos;
  constexpr double latency = 3e-3;
  HaloWindow::Options options;
  options.force_put = GetParam() == "put";
  options.memory = GetParam() == "device" ? HaloMemory::device : HaloMemory::host;
  options.inject.latency_us = 1e6 * latency;
  const Topology topology = ring();
  const int degree = static_cast<int>(topology.in_neighbours(this_rank()).size());
  HaloWindow window(MPI_COMM_WORLD, topology, 16, options);
  const std::vector<float> weights(16, 1.0F);
  const Buffer<float> device_weights("weights", 16);
  const HaloValues<const float> sent =
      options.memory == HaloMemory::device
          ? HaloValues<const float>::on_device(device_weights)
          : HaloValues<const float>(HostVector<const float>(weights.data(), weights.size()));
  for (std::int64_t version = 1; version <= 10; ++version) {
    if (degree > 0) window.put(version, sent);
    window.flush();
    for (int edge = 0; edge < degree; ++edge) {
      window.wait(edge, version);
      window.release(edge, version);
    }
  }
  for (const EdgeRecord& record : window.edges().take()) {
    EXPECT_EQ(record.halos, 10);
    EXPECT_EQ(record.staleness[0], 10);
    EXPECT_EQ(record.skipped, 0);
    EXPECT_EQ(record.bytes, 640);
    EXPECT_GE(record.least_delay, latency);
    EXPECT_GE(record.delay, 10 * latency);
  }
  for (const EdgeRecord& record : window.edges().take()) EXPECT_EQ(record.halos, 0);
  Communicator(MPI_COMM_WORLD).barrier();
}

INSTANTIATE_TEST_SUITE_P(Edges, Latency, testing::Values("store", "put", "device"),
                         [](const auto& instance) { return instance.param; });

TEST(Latency, HoldsForStaleReadsToo) {
  HaloWindow::Options options;
  options.exact = false;
  options.slots = 8;
  options.inject.latency_us = 2000;
  const Topology topology = ring();
  const int degree = static_cast<int>(topology.in_neighbours(this_rank()).size());
  HaloWindow window(MPI_COMM_WORLD, topology, 16, options);
  const std::vector<float> weights(16, 1.0F);
  std::vector<float> copy(16);
  for (std::int64_t version = 1; version <= 3 && degree > 0; ++version) {
    window.put(version, HostVector<const float>(weights.data(), weights.size()));
    window.flush();
  }
  for (int edge = 0; edge < degree; ++edge) {
    std::int64_t have = 0;
    PolitePause pause;
    while (have < 3) {
      window.move_on();
      have = window.copy_latest(edge, have, HostVector<float>(copy.data(), copy.size()));
      pause();
    }
  }
  for (const EdgeRecord& record : window.edges().take()) {
    EXPECT_EQ(record.halos + record.skipped, 3);
    EXPECT_GE(record.least_delay, 2e-3);
  }
  Communicator(MPI_COMM_WORLD).barrier();
}

/// Halos of 1000 floats, of which each takes 2 ms to leave its rank.
constexpr std::size_t slow_length = 1000;
constexpr double slow_seconds = 2e-3;
HaloWindow::Options on_a_slow_network(const std::string& way) {
  HaloWindow::Options options;
  options.force_put = way != "store";
  if (way == "send") options.carrier = Carrier::send;
  options.inject.bandwidth_mb = 1e-6 * slow_length * sizeof(float) / slow_seconds;
  return options;
}

class Bandwidth : public testing::TestWithParam<std::string> {};

TEST_P(Bandwidth, IsSharedByTheEdgesOfARank) {
  std::optional<ProgressThread> receiver;
  if (GetParam() == "send") receiver.emplace(MPI_COMM_WORLD, 100);
  const Topology topology = ring();
  const int degree = static_cast<int>(topology.in_neighbours(this_rank()).size());
  HaloWindow window(MPI_COMM_WORLD, topology, slow_length, on_a_slow_network(GetParam()));
  const std::vector<float> weights(slow_length, 1.0F);
  constexpr std::int64_t versions = 5;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t version = 1; version <= versions; ++version) {
    window.put(version, HostVector<const float>(weights.data(), weights.size()));
    window.flush();
    for (int edge = 0; edge < degree; ++edge) {
      window.wait(edge, version);
      window.release(edge, version);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(seconds.count(), versions * degree * slow_seconds);
  for (const EdgeRecord& record : window.edges().take()) {
    const std::vector<Neighbour>& out = topology.out_neighbours(record.from);
    const auto before = std::count_if(out.begin(), out.end(), [](const Neighbour& n) { return n.rank < this_rank(); });
    EXPECT_GE(record.least_delay, static_cast<double>(before + 1) * slow_seconds) << record.from;
  }
}

TEST_P(Bandwidth, HoldsBackWritersThatWaitForNobody) {
  const Topology topology = ring();
  const auto degree = static_cast<std::int64_t>(topology.in_neighbours(this_rank()).size());
  HaloWindow::Options options = on_a_slow_network(GetParam());
  options.exact = false;
  options.free = true;
  options.free_carrier = options.carrier;
  HaloWindow window(MPI_COMM_WORLD, topology, slow_length, options);
  std::vector<float> weights(slow_length), copy(slow_length);
  std::vector<std::int64_t> have(static_cast<std::size_t>(degree), 0);
  std::int64_t taken = 0;
  const auto begin = std::chrono::steady_clock::now();
  PolitePause pause;
  OwnedRequest all_have_read;
  bool read = false;
  for (std::int64_t version = 1; !read || !all_have_read.test(); ++version, pause()) {
    std::fill(weights.begin(), weights.end(), static_cast<float>(version));
    window.put(version, HostVector<const float>(weights.data(), weights.size()));
    window.flush();
    window.move_on();
    for (int edge = 0; edge < static_cast<int>(degree); ++edge) {
      std::int64_t& last = have[static_cast<std::size_t>(edge)];
      const std::int64_t now = window.copy_latest(edge, last, HostVector<float>(copy.data(), copy.size()));
      if (now == last) continue;
      last = now;
      ++taken;
      EXPECT_EQ(std::count(copy.begin(), copy.end(), static_cast<float>(now)),
                static_cast<std::ptrdiff_t>(slow_length));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const auto halos = window.bytes_sent() / static_cast<std::int64_t>(slow_length * sizeof(float));
    EXPECT_LE(static_cast<double>(halos - degree) * slow_seconds, seconds.count());
    if (!read && taken >= 10 * degree) {
      read = true;
      MPI_Ibarrier(MPI_COMM_WORLD, all_have_read.start());
    }
  }
}

// A progress thread may not run the kernel that copies.
TEST(Bandwidth, StoresThatStandForANetworkAreMadeByTheRankItself) {
  if (Communicator(MPI_COMM_WORLD).nodes() > 1) GTEST_SKIP() << "messages between nodes have a hook of their own";
  HaloWindow::Options options = on_a_slow_network("store");
  options.exact = false;
  options.free = true;
  const HaloWindow window(MPI_COMM_WORLD, ring(), slow_length, options);
  EXPECT_FALSE(ProgressHook::any());
}

INSTANTIATE_TEST_SUITE_P(Edges, Bandwidth, testing::Values("store", "put", "send"),
                         [](const auto& instance) { return instance.param; });

TEST(LostHalos, AreCountedAndTheRestIsMixed) {
  AveragerConfig config;
  config.staleness = -1;
  CommConfig transport;
  transport.slots = 4;
  transport.inject.drop_fraction = 0.5;
  constexpr std::int64_t steps = 40;
  for (const bool force_put : {false, true}) {
    transport.force_put = force_put;
    const auto averager = make_averager({config, transport, ring(), MPI_COMM_WORLD, 8, 0});
    const Buffer<float> weights("weights", 8), gradient("gradient", 8);
    Kokkos::deep_copy(weights, 1.0F);
    const ExecutionSpace exec;
    for (std::int64_t step = 0; step < steps; ++step) {
      averager->before_gradient(exec, step, weights);
      averager->before_update(exec, step, weights, gradient, 1.0 / all_ranks());
      averager->after_update(exec, step, weights);
      Communicator(MPI_COMM_WORLD).barrier();  // so that what is not lost is read
    }
    const Injector injector(transport.inject);
    for (const EdgeRecord& record : averager->take_edges()) {
      std::int64_t came = 0, last = 0;
      for (std::int64_t version = 1; version <= steps; ++version) {
        if (injector.drops(record.from, this_rank(), version)) continue;
        ++came;
        last = version;
      }
      EXPECT_GT(came, 0);
      EXPECT_LT(came, steps);
      EXPECT_LE(record.halos, came);
      EXPECT_GE(record.halos, 1);
      EXPECT_LE(record.halos + record.skipped, last);
      EXPECT_EQ(std::accumulate(record.staleness.begin(), record.staleness.end(), record.left_out), steps);
    }
    EXPECT_EQ(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), weights)(0), 1);
  }
}

TEST(EdgeLog, CountsAgesInBins) {
  EdgeLog log({7}, 12);
  for (const std::int64_t age : {0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 1000}) log.mixed(0, age);
  log.taken(0, 3, 0.25);
  log.taken(0, 1, 0.75);
  log.left_out(0);
  const std::vector<EdgeRecord> records = log.take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].staleness, (std::array<std::int64_t, staleness_bins>{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(records[0].from, 7);
  EXPECT_EQ(records[0].halos, 2);
  EXPECT_EQ(records[0].skipped, 2);
  EXPECT_EQ(records[0].bytes, 24);
  EXPECT_EQ(records[0].left_out, 1);
  EXPECT_EQ(records[0].delay, 1);
  EXPECT_EQ(records[0].least_delay, 0.25);
}

}  // namespace
}  // namespace halograd::injector_mpi_test
