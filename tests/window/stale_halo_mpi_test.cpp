// Reading whatever halo is there: never a torn one, and an averager on top that waits for nobody or not for long.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "averagers/averager.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "kernels/random.hpp"
#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/window/device_halos.hpp"
#include "window/halo_window.hpp"
#include "window/shared_segment.hpp"

namespace halograd::stale_halo_mpi_test {
namespace {

Topology topology_of(const std::string& kind) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, all_ranks());
}

HostVector<const float> view(const std::vector<float>& values) {
  return HostVector<const float>(values.data(), values.size());
}

float payload(int rank, std::int64_t version) {
  return static_cast<float>(rank * 100'000 + version % 99'991);
}

/// Every now and then some microseconds, other in every call, to let writer and reader meet in all phases.
void dawdle(std::uint64_t call) {
  const std::uint64_t bits = random_bits(static_cast<std::uint64_t>(this_rank()), call);
  if (bits % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits / 512 % 50));
}

struct Reads {
  double done = 0, torn = 0, fresh = 0;
};

class StaleHalo : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(StaleHalo, NoCopyIsTornAtFullSpeed) {
  constexpr std::size_t length = 1024;
  const Topology topology = topology_of("ring");
  const std::vector<Neighbour>& in = topology.in_neighbours(this_rank());
  const auto& [slots, way] = GetParam();
  const bool on_device = way == "device";
  if (on_device && !device_halos_work()) GTEST_SKIP() << no_device_halos;
  HaloWindow::Options options{{slots, way == "put" || way == "free_put" || way == "free_send"}};
  options.exact = false;
  options.free = way == "free_put" || way == "free_send";
  options.free_carrier = way == "free_put" ? Carrier::put : Carrier::send;
  if (on_device) options.memory = HaloMemory::device;
  HaloWindow window(MPI_COMM_WORLD, topology, length, options);
  std::vector<float> weights(length), copy(length);
  const Buffer<float> device_weights("weights", on_device ? length : 0), device_copy("copy", on_device ? length : 0);
  std::vector<std::int64_t> have(in.size(), 0);
  // On more ranks than cores few copies are new. A put needs its target inside MPI, which takes longer still.
  const long reads_of_all_ranks = (all_ranks() <= 2 ? 1'000'000 : 200'000) / (way == "store" ? 1 : 25);
  const long reads = reads_of_all_ranks / all_ranks();
  Reads mine;
  std::int64_t version = 0;
  // Ranks that share a core see each other's copies seldom: all go on writing until each has read some that were new.
  OwnedRequest all_have_enough;
  const PolitePause time;
  const auto goes_on = [&](long read) {
    if (!all_have_enough.is_under_way()) {
      const bool enough = all_ranks() == 1 || mine.fresh * all_ranks() > 100;
      if (read < reads || (!enough && time.seconds() < 60)) return true;
      MPI_Ibarrier(MPI_COMM_WORLD, all_have_enough.start());
    }
    return !all_have_enough.test();
  };
  for (long read = 0; goes_on(read); ++read) {
    if (read % 4 == 0) {
      std::fill(weights.begin(), weights.end(), payload(this_rank(), ++version));
      if (on_device) Kokkos::deep_copy(device_weights, view(weights));
      window.put(version, on_device ? HaloValues<const float>::on_device(device_weights)
                                    : HaloValues<const float>(view(weights)));
      window.flush();
    }
    dawdle(static_cast<std::uint64_t>(read));
    window.move_on();
    for (std::size_t edge = 0; edge < in.size(); ++edge) {
      const std::int64_t before = have[edge];
      const HostVector<float> host_copy(copy.data(), length);
      have[edge] =
          window.copy_latest(static_cast<int>(edge), before,
                             on_device ? HaloValues<float>::on_device(device_copy) : HaloValues<float>(host_copy));
      if (on_device) Kokkos::deep_copy(host_copy, device_copy);
      ++mine.done;
      if (have[edge] == before) continue;
      ++mine.fresh;
      const float expected = payload(in[edge].rank, have[edge]);
      if (have[edge] < before || std::any_of(copy.begin(), copy.end(), [&](float x) { return x != expected; })) {
        ++mine.torn;
      }
    }
  }
  double sums[3] = {mine.done, mine.torn, mine.fresh};
  Communicator(MPI_COMM_WORLD).sum(std::span<double>(sums));
  EXPECT_EQ(sums[1], 0) << "of " << sums[0] << " reads, " << sums[2] << " of them fresh";
  if (all_ranks() > 1) {
    EXPECT_GT(sums[2], 100) << "hardly ever was there anything new to read: this tests nothing";
  }
}

std::string name_of(const testing::TestParamInfo<StaleHalo::ParamType>& instance) {
  return std::get<1>(instance.param);
}

INSTANTIATE_TEST_SUITE_P(Edges, StaleHalo,
                         testing::Combine(testing::Values(2),
                                          testing::Values("store", "put", "free_put", "free_send", "device")),
                         name_of);
// How halos travel is the same; a reader has more time before its slot is written again.
INSTANTIATE_TEST_SUITE_P(ThreeSlots, StaleHalo,
                         testing::Combine(testing::Values(3), testing::Values("store", "free_put")), name_of);

constexpr std::size_t large = std::size_t{1} << 20U;  // floats that no MPI sends before they are received

HaloWindow::Options between_nodes() {
  HaloWindow::Options options{{2, true}};
  options.exact = false;
  options.free = true;
  return options;
}

void put(HaloWindow& window, std::int64_t version) {
  const std::vector<float> weights(large, payload(this_rank(), version));
  window.put(version, view(weights));  // which may change then
  window.flush();
}

/// Reads until this version or a newer one has come, which is whole; returns its number.
std::int64_t take(HaloWindow& window, int edge, int from, std::int64_t have, std::int64_t version) {
  if (have >= version) return have;
  std::vector<float> copy(large);
  PolitePause pause;
  for (; have < version; pause()) {
    window.move_on();
    have = window.copy_latest(edge, have, HostVector<float>(copy.data(), large));
  }
  EXPECT_EQ(std::count(copy.begin(), copy.end(), payload(from, have)), static_cast<std::ptrdiff_t>(large));
  return have;
}

/// Waits for all ranks, and sends what they still wait for.
void meet(HaloWindow& window) {
  OwnedRequest barrier;
  MPI_Ibarrier(MPI_COMM_WORLD, barrier.start());
  for (PolitePause pause; !barrier.test(); pause()) window.move_on();
}

TEST(BackPressure, OneHaloIsUnderWayOnAnEdgeAndTheNewestOneFollowsIt) {
  constexpr std::int64_t last = 20;
  const Topology topology = topology_of("ring");
  const std::vector<Neighbour>& in = topology.in_neighbours(this_rank());
  const auto halo_bytes = static_cast<std::int64_t>(in.size() * large * sizeof(float));
  HaloWindow window(MPI_COMM_WORLD, topology, large, between_nodes());
  for (std::int64_t version = 1; version <= last; ++version) put(window, version);  // nobody receives
  EXPECT_EQ(window.bytes_sent(), halo_bytes);
  Communicator(MPI_COMM_WORLD).barrier();
  for (int edge = 0; edge < static_cast<int>(in.size()); ++edge) {
    EXPECT_EQ(take(window, edge, in[static_cast<std::size_t>(edge)].rank, 0, last), last);
  }
  meet(window);
  for (const EdgeRecord& record : window.edges().take()) EXPECT_EQ(record.halos + record.skipped, last);
  EXPECT_EQ(window.bytes_sent(), 2 * halo_bytes);
}

TEST(BackPressure, AReaderThatIsLateHoldsUpItsOwnEdgeOnly) {
  constexpr std::int64_t last = 5;
  const std::int64_t ranks = all_ranks();
  if (ranks < 3) GTEST_SKIP() << "needs a rank that is late, and two that are not";
  const Topology topology = topology_of("complete");
  const std::vector<Neighbour>& in = topology.in_neighbours(this_rank());
  HaloWindow window(MPI_COMM_WORLD, topology, large, between_nodes());
  if (this_rank() == 0) {
    Communicator(MPI_COMM_WORLD).barrier();  // receives nothing meanwhile
    return;
  }
  std::vector<std::int64_t> have(in.size(), 0);
  for (std::int64_t version = 1; version <= last; ++version) {
    put(window, version);
    for (std::size_t edge = 0; edge < in.size(); ++edge) {
      if (in[edge].rank != 0) have[edge] = take(window, static_cast<int>(edge), in[edge].rank, have[edge], version);
    }
  }
  EXPECT_LE(window.bytes_sent(), (last * (ranks - 2) + 1) * static_cast<std::int64_t>(large * sizeof(float)));
  meet(window);
}

// The other side of those copies: with one slot and no second look at the counter, the same traffic is torn.
TEST(OneSlotUnchecked, IsTorn) {
  if (all_ranks() != 2) GTEST_SKIP() << "a writer and a reader";
  constexpr std::size_t length = 16384, data_at = 64;
  SharedSegment segment(MPI_COMM_WORLD, data_at + length * sizeof(float), RmaReach::none);
  std::byte* const there = segment.of(0);
  if (there == nullptr) GTEST_SKIP() << "needs two ranks on one node";
  auto& latest = *reinterpret_cast<std::int64_t*>(there);
  auto* const data = reinterpret_cast<float*>(there + data_at);
  double torn = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  double seen = 0;  // of rank 1, told to rank 0 so that both stop
  std::int64_t version = 0;
  while (seen == 0 && std::chrono::steady_clock::now() < end) {
    for (int round = 0; round < 2000; ++round) {
      if (this_rank() == 0) {
        std::fill(data, data + length, payload(0, ++version));
        std::atomic_ref(latest).store(version, std::memory_order_release);
      } else {
        const std::int64_t read = std::atomic_ref(latest).load(std::memory_order_acquire);
        const std::vector<float> copy(data, data + length);
        if (read > 0)
          torn += std::count_if(copy.begin(), copy.end(), [&](float x) { return x != copy[0]; }) > 0 ? 1 : 0;
      }
    }
    seen = Communicator(MPI_COMM_WORLD).sum(torn);
  }
  EXPECT_GT(seen, 0);
}

std::unique_ptr<Averager> make(const AveragerConfig& config, const std::string& kind, std::size_t length,
                               bool force_put = false, std::int64_t first_step = 0,
                               HaloMemory memory = HaloMemory::host) {
  CommConfig transport;
  transport.force_put = force_put;
  transport.slots = 3;
  const Topology topology = topology_of(kind);
  AveragerContext context{config, transport, topology, MPI_COMM_WORLD, length, first_step};
  context.halo_memory = memory;
  return make_averager(context);
}

void steps(Averager& averager, const Buffer<float>& weights, std::int64_t first, std::int64_t last) {
  const ExecutionSpace exec;
  const Buffer<float> gradient("gradient", weights.extent(0));
  for (std::int64_t step = first; step < last; ++step) {
    averager.before_gradient(exec, step, weights);
    dawdle(static_cast<std::uint64_t>(step));
    averager.before_update(exec, step, weights, gradient, 1.0 / all_ranks());
    averager.after_update(exec, step, weights);
  }
  exec.fence();
}

float first_value(const Buffer<float>& weights) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), weights)(0);
}

AveragerConfig stale(int staleness, double patience = 0) {
  AveragerConfig config;
  config.staleness = staleness;
  config.patience = patience;
  return config;
}

TEST(StaleNeighbourAverager, ReplicasAgreeAndStayBetweenTheirStarts) {
  struct Case {
    const char* kind;
    int staleness;
    bool force_put;
    std::int64_t steps;
    HaloMemory memory = HaloMemory::host;
  };
  const std::int64_t ranks = all_ranks();
  for (const Case& c : {Case{"ring", 1, false, 40 * ranks}, Case{"ring", 5, false, 40 * ranks},
                        Case{"exponential", -1, false, 40 * ranks}, Case{"ring", 1, true, 20 * ranks},
                        Case{"ring", 1, false, 20 * ranks, HaloMemory::device}}) {
    if (c.memory == HaloMemory::device && !device_halos_work()) continue;
    const auto averager = make(stale(c.staleness), c.kind, 100, c.force_put, 0, c.memory);
    const Buffer<float> weights("weights", 100);
    Kokkos::deep_copy(weights, static_cast<float>(this_rank()));
    steps(*averager, weights, 0, 20);
    Communicator(MPI_COMM_WORLD).barrier();  // everybody has published
    steps(*averager, weights, 20, 20 + c.steps);
    const float mine = first_value(weights);
    double extremes[2] = {mine, -mine};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, extremes, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    wait_politely(request);
    if (c.staleness > 0) {
      EXPECT_NEAR(extremes[0], -extremes[1], 1e-3) << c.kind << " " << c.staleness;
    }
    EXPECT_LE(extremes[0], all_ranks() - 1);
    EXPECT_LE(extremes[1], 0);
  }
}

TEST(StaleNeighbourAverager, WithoutABoundNobodyWaitsForASlowRank) {
  const auto averager = make(stale(-1), "ring", 10);
  const Buffer<float> weights("weights", 10);
  if (this_rank() != 0) steps(*averager, weights, 0, 500);  // rank 0 has not begun
  EXPECT_EQ(averager->wait_seconds(), 0);
  Communicator(MPI_COMM_WORLD).barrier();
  if (this_rank() == 0) steps(*averager, weights, 0, 5);  // with halos of the others, who make no steps now
}

TEST(StaleNeighbourAverager, LeavesALateRankOutAndTakesItBack) {
  if (all_ranks() < 3) GTEST_SKIP() << "needs a rank that is late, and two that are not";
  const auto averager = make(stale(1, 0.02), "complete", 10);
  const Buffer<float> weights("weights", 10);
  Kokkos::deep_copy(weights, this_rank() == 0 ? 5.0F : 1.0F);
  if (this_rank() != 0) {
    steps(*averager, weights, 0, 20);
    EXPECT_FLOAT_EQ(first_value(weights), 1);  // its share went to those who are there
  }
  Communicator(MPI_COMM_WORLD).barrier();
  if (this_rank() == 0) steps(*averager, weights, 0, 1);  // publishes 5 as its version 1, far behind the others
  Communicator(MPI_COMM_WORLD).barrier();
  if (this_rank() != 0) {
    steps(*averager, weights, 20, 21);
    EXPECT_FLOAT_EQ(first_value(weights), 1 + 4.0F / static_cast<float>(all_ranks()));
  }
  Communicator(MPI_COMM_WORLD).barrier();
  steps(*averager, weights, this_rank() == 0 ? 1 : 21, 60);
  Communicator(MPI_COMM_WORLD).barrier();
  EXPECT_GE(first_value(weights), 1);
  EXPECT_LT(first_value(weights), 5);
}

TEST(StaleNeighbourAverager, AHalosWeightFallsWithItsAge) {
  if (all_ranks() != 2) GTEST_SKIP() << "two ranks";
  AveragerConfig config = stale(-1);
  config.age_factor = 0.5;
  const auto averager = make(config, "ring", 10);  // mixing weight 1/2
  const Buffer<float> weights("weights", 10);
  Kokkos::deep_copy(weights, this_rank() == 0 ? 0.0F : 1.0F);
  if (this_rank() == 1) steps(*averager, weights, 0, 1);  // publishes 1 as its version 1; nothing there to mix yet
  Communicator(MPI_COMM_WORLD).barrier();
  if (this_rank() == 0) {
    double expected = 0;
    for (int age = 0; age < 4; ++age) {
      steps(*averager, weights, age, age + 1);
      const double weight = 0.5 * std::pow(0.5, age);
      expected = (1 - weight) * expected + weight;
      EXPECT_FLOAT_EQ(first_value(weights), static_cast<float>(expected)) << age;
    }
  }
  Communicator(MPI_COMM_WORLD).barrier();
}

// Rank 0 makes steps 100, 101, ..., rank 1 is still at its first ones, or the other way round.
TEST(StaleNeighbourAverager, AnAgeIsThatOfOwnStepsSinceTheHaloCameHoweverManyStepsItsWriterHasMade) {
  if (all_ranks() != 2) GTEST_SKIP() << "two ranks";
  for (const int ahead : {0, 1}) {
    AveragerConfig config = stale(-1);
    config.age_factor = 0.5;
    const auto averager = make(config, "ring", 10);  // mixing weight 1/2
    const Buffer<float> weights("weights", 10);
    if (this_rank() == ahead) steps(*averager, weights, 0, 100);
    Communicator(MPI_COMM_WORLD).barrier();
    Kokkos::deep_copy(weights, this_rank() == 0 ? 0.0F : 1.0F);
    if (this_rank() == 1) steps(*averager, weights, ahead == 1 ? 100 : 0, ahead == 1 ? 101 : 1);
    const float published = this_rank() == 1 ? 1 : 0;
    Communicator(MPI_COMM_WORLD).barrier();
    averager->take_edges();
    if (this_rank() == 0) {
      double expected = published;
      for (std::int64_t age = 0; age < 4; ++age) {
        const std::int64_t step = (ahead == 0 ? 100 : 0) + age;
        steps(*averager, weights, step, step + 1);
        const double weight = 0.5 * std::pow(0.5, static_cast<double>(age));
        expected = (1 - weight) * expected + weight;
        EXPECT_FLOAT_EQ(first_value(weights), static_cast<float>(expected)) << ahead << " " << age;
      }
      const EdgeRecord record = averager->take_edges().at(0);
      EXPECT_EQ(record.staleness, (std::array<std::int64_t, staleness_bins>{1, 1, 1, 1}));
    }
    Communicator(MPI_COMM_WORLD).barrier();
  }
}

TEST(StaleNeighbourAverager, GoesOnFromAnyStep) {
  const auto averager = make(stale(2), "ring", 10, false, 1'000'000);
  const Buffer<float> weights("weights", 10);
  Kokkos::deep_copy(weights, 1.0F);
  steps(*averager, weights, 1'000'000, 1'000'050);
  EXPECT_FLOAT_EQ(first_value(weights), 1);
}

TEST(HaloWindow, RefusesTheReadsOfTheOtherKind) {
  const Topology topology = topology_of("ring");
  std::vector<float> copy(4);
  HaloWindow exact(MPI_COMM_WORLD, topology, 4, {{2, false}});
  EXPECT_THROW(exact.copy_latest(0, 0, HostVector<float>(copy.data(), 4)), Error);
  if (all_ranks() == 1) return;
  HaloWindow::Options options;
  options.exact = false;
  HaloWindow window(MPI_COMM_WORLD, topology, 4, options);
  EXPECT_THROW(window.wait(0, 1), Error);
}

}  // namespace
}  // namespace halograd::stale_halo_mpi_test
