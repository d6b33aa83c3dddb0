#include "window/halo_window.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "mpi/communicator.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/window/device_halos.hpp"
#include "window/progress_thread.hpp"

namespace halograd::halo_window_mpi_test {
namespace {

bool on_one_node() {
  return Communicator(MPI_COMM_WORLD).nodes() == 1;
}

/// Sums over ranks, so that all ranks judge the same number.
long total(long mine) {
  auto sum = static_cast<double>(mine);
  sum = Communicator(MPI_COMM_WORLD).sum(sum);
  return static_cast<long>(sum);
}

/// `kind` of make_topology, or a ring whose edges go one way.
Topology topology_of(const std::string& kind) {
  const int ranks = all_ranks();
  if (kind != "one_way") {
    TopologyConfig config;
    config.kind = kind;
    return make_topology(config, ranks);
  }
  std::vector<std::vector<Neighbour>> in_neighbours(ranks);
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) in_neighbours[rank] = {{(rank + ranks - 1) % ranks, 0.5}};
  return {"one_way", in_neighbours};
}

/// What rank `writer` publishes as its `version` at entry i: different for each of the three.
float payload(int writer, std::int64_t version, std::size_t i) {
  return random_uniform((static_cast<std::uint64_t>(writer) << 40U) + static_cast<std::uint64_t>(version), i);
}

std::vector<float> weights_of(int writer, std::int64_t version, std::size_t length) {
  std::vector<float> weights(length);
  for (std::size_t i = 0; i < length; ++i) weights[i] = payload(writer, version, i);
  return weights;
}

HostVector<const float> view(const std::vector<float>& weights) {
  return HostVector<const float>(weights.data(), weights.size());
}

/// Weights where a window takes them from.
class Weights {
 public:
  Weights(HaloMemory memory, std::vector<float> weights) : memory_(memory), host_(std::move(weights)) {
    if (memory == HaloMemory::host) return;
    device_ = Buffer<float>("weights", host_.size());
    Kokkos::deep_copy(device_, view(host_));
  }
  [[nodiscard]] const std::vector<float>& host() const { return host_; }
  [[nodiscard]] HaloValues<const float> get() const {
    if (memory_ == HaloMemory::host) return view(host_);
    return HaloValues<const float>::on_device(device_);
  }

 private:
  HaloMemory memory_;
  std::vector<float> host_;
  Buffer<float> device_;
};

long wrong_entries(HaloValues<const float> halo, int writer, std::int64_t version) {
  std::vector<float> found(halo.length());
  const HostVector<float> to(found.data(), found.size());
  if (halo.memory() == HaloMemory::device) {
    Kokkos::deep_copy(to, halo.device());
  } else {
    Kokkos::deep_copy(to, halo.host());
  }
  long wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] != payload(writer, version, i) ? 1 : 0;
  return wrong;
}

/// Up to `most` microseconds, other in every call, with MPI kept going so that puts into this rank's memory arrive.
void dawdle(long most, std::uint64_t call) {
  const auto microseconds = static_cast<long>(random_bits(static_cast<std::uint64_t>(this_rank()), call) % (most + 1));
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// What put() would do for the ranks of this node.
void write_ahead(HaloWindow& window, const std::vector<float>& weights) {
  const HostVector<float> slot = window.next_slot();
  EXPECT_EQ(slot.extent(0), window.stored_edges() > 0 ? weights.size() : 0);
  std::copy_n(weights.begin(), slot.extent(0), slot.data());
}

/// How halos go: "store", "put" and "send" from and to host memory, "device" from and to device memory, with counters
/// by stores or, "device_put", by MPI as between nodes. On several nodes "send" leaves stores inside each of them.
HaloWindow::Options options_of(int slots, const std::string& way) {
  HaloWindow::Options options{{slots, way == "put" || way == "device_put" || (way == "send" && on_one_node())}};
  if (way == "send") options.carrier = Carrier::send;
  if (way == "device" || way == "device_put") options.memory = HaloMemory::device;
  return options;
}

class HaloWindowTest : public testing::TestWithParam<std::tuple<std::string, int, std::string>> {
 protected:
  void SetUp() override {
    if (options_.memory == HaloMemory::device && !device_halos_work()) GTEST_SKIP() << no_device_halos;
    if (options_.carrier == Carrier::send) receiver_.emplace(MPI_COMM_WORLD, 100);
  }
  [[nodiscard]] Weights weights(std::int64_t version, std::size_t length) const {
    return {options_.memory, weights_of(this_rank(), version, length)};
  }

  Topology topology_ = topology_of(std::get<0>(GetParam()));
  HaloWindow::Options options_ = options_of(std::get<1>(GetParam()), std::get<2>(GetParam()));
  const std::vector<Neighbour>& in_ = topology_.in_neighbours(this_rank());
  std::optional<ProgressThread> receiver_;
};

TEST_P(HaloWindowTest, VersionsArriveExactlyAndUntornUnderRandomDelays) {
  constexpr std::size_t length = 3001;
  options_.put_floats = 1000;  // several MPI_Puts a halo
  HaloWindow window(MPI_COMM_WORLD, topology_, length, options_);
  long wrong = 0;
  std::uint64_t call = 0;
  for (std::int64_t version = 1; version <= 60; ++version) {
    const Weights sent = weights(version, length);
    if (version % 2 == 0) write_ahead(window, sent.host());
    for (std::size_t begin = 0; version % 3 == 0 && begin < length; begin += 1500) {  // 1500, 1500 and 1 values
      window.put_ahead(begin, sent.get().part(begin, std::min<std::size_t>(1500, length - begin)));
      dawdle(100, ++call);
    }
    if (version % 5 == 0 && version % 3 != 0) window.put_ahead(0, sent.get().part(0, 700));
    dawdle(100, ++call);
    window.put(version, sent.get());
    dawdle(100, ++call);
    window.flush();
    for (int edge = 0; edge < static_cast<int>(in_.size()); ++edge) {
      const HaloValues<const float> halo = window.wait(edge, version);
      wrong += wrong_entries(halo, in_[edge].rank, version);
      dawdle(100, ++call);
      wrong += wrong_entries(halo, in_[edge].rank, version);  // and stays until released
      window.release(edge, version);
    }
  }
  EXPECT_EQ(total(wrong), 0);
  const std::size_t out_edges = topology_.out_neighbours(this_rank()).size();
  EXPECT_EQ(window.bytes_sent(), static_cast<std::int64_t>(60 * out_edges * length * sizeof(float)));
}

TEST_P(HaloWindowTest, AFastWriterFillsTheSlotsButCannotLapASlowReader) {
  constexpr std::size_t length = 500;
  const std::int64_t slots = options_.slots;
  HaloWindow window(MPI_COMM_WORLD, topology_, length, options_);
  const auto publish = [&](std::int64_t version) {
    const Weights sent = weights(version, length);
    window.put(version, sent.get());
    window.flush();
  };
  for (std::int64_t version = 1; version <= slots; ++version) publish(version);  // nobody reads: must not wait
  long wrong = 0;
  for (std::int64_t version = 1; version <= 10; ++version) {
    if (this_rank() == 0) dawdle(3000, static_cast<std::uint64_t>(version));
    for (int edge = 0; edge < static_cast<int>(in_.size()); ++edge) {
      const HaloValues<const float> halo = window.wait(edge, version);
      if (this_rank() == 0) dawdle(3000, static_cast<std::uint64_t>(version + 100));
      wrong += wrong_entries(halo, in_[edge].rank, version);
      window.release(edge, version);
    }
    publish(version + slots);  // waits for the readers of `version`
  }
  EXPECT_EQ(total(wrong), 0);
}

std::string name_of(const testing::TestParamInfo<HaloWindowTest::ParamType>& instance) {
  return std::get<0>(instance.param) + "_" + std::get<2>(instance.param);
}

INSTANTIATE_TEST_SUITE_P(Edges, HaloWindowTest,
                         testing::Combine(testing::Values("exponential", "one_way"), testing::Values(2),
                                          testing::Values("store", "put", "send", "device", "device_put")),
                         name_of);
// Where a version lies depends neither on the graph nor on the memory.
INSTANTIATE_TEST_SUITE_P(ThreeSlots, HaloWindowTest,
                         testing::Combine(testing::Values("exponential"), testing::Values(3),
                                          testing::Values("store", "put", "send")),
                         name_of);

TEST(HaloWindow, StoresInsideANodeUnlessTold) {
  const Topology topology = topology_of("ring");
  const auto degree = static_cast<int>(topology.out_neighbours(this_rank()).size());
  EXPECT_EQ(HaloWindow(MPI_COMM_WORLD, topology, 10, options_of(2, "put")).stored_edges(), 0);
  EXPECT_EQ(HaloWindow(MPI_COMM_WORLD, topology, 10, options_of(2, "device")).stored_edges(), 0);
  const HaloWindow window(MPI_COMM_WORLD, topology, 10, {{2, false}});
  if (on_one_node()) {
    EXPECT_EQ(window.stored_edges(), degree);
  }
}

TEST(HaloWindow, MayBeEmpty) {
  for (const char* way : {"put", "send", "device"}) {
    const HaloWindow::Options options = options_of(2, way);
    HaloWindow window(MPI_COMM_WORLD, topology_of("ring"), 0, options);
    window.put(1, Weights(options.memory, {}).get());
    window.flush();
    EXPECT_EQ(window.bytes_sent(), 0);
  }
}

TEST(HaloWindow, GoesOnFromAnyVersion) {
  constexpr std::int64_t before = 1'000'000'000'041;  // beyond what int holds
  const Topology topology = topology_of("ring");
  const std::vector<Neighbour>& in = topology.in_neighbours(this_rank());
  for (const bool force_put : {false, true}) {
    HaloWindow window(MPI_COMM_WORLD, topology, 10, {{2, force_put}});
    window.start_at(before);
    long wrong = 0;
    for (std::int64_t version = before + 1; version < before + 8; ++version) {
      const std::vector<float> weights = weights_of(this_rank(), version, 10);
      window.put(version, view(weights));
      window.flush();
      for (int edge = 0; edge < static_cast<int>(in.size()); ++edge) {
        wrong += wrong_entries(window.wait(edge, version), in[edge].rank, version);
        window.release(edge, version);
      }
    }
    EXPECT_EQ(total(wrong), 0);
  }
}

TEST(HaloWindow, RefusesVersionsOutOfTurn) {
  const Topology topology = topology_of("ring");
  HaloWindow window(MPI_COMM_WORLD, topology, 4, {{2, false}});
  const std::vector<float> weights(4), short_weights(3);
  EXPECT_THROW(window.put(2, view(weights)), Error);
  EXPECT_THROW(window.put(1, view(short_weights)), Error);
  window.put(1, view(weights));
  EXPECT_THROW(window.put(2, view(weights)), Error);  // before the flush
  window.flush();
  EXPECT_THROW(window.start_at(7), Error);
  if (topology.in_neighbours(this_rank()).empty()) return;
  EXPECT_THROW(window.release(0, 2), Error);
  EXPECT_THROW(window.wait(0, 2), Error);
}

TEST(HaloWindow, RefusesWeightsAndReadersOfTheOtherMemory) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  const Topology topology = topology_of("ring");
  const std::vector<float> values(4);
  const Weights on_device(HaloMemory::device, values);
  HaloWindow host(MPI_COMM_WORLD, topology, 4, options_of(2, "put"));
  HaloWindow device(MPI_COMM_WORLD, topology, 4, options_of(2, "device"));
  EXPECT_THROW(host.put(1, on_device.get()), Error);
  EXPECT_THROW(device.put(1, view(values)), Error);
  device.put(1, on_device.get());
  device.flush();
  if (topology.in_neighbours(this_rank()).empty()) return;
  const HaloValues<const float> halo = device.wait(0, 1);
  EXPECT_THROW(static_cast<void>(halo.host()), Error);
  EXPECT_EQ(halo.device().extent(0), 4);
  device.release(0, 1);
}

TEST(HaloWindow, RefusesOnAllRanksWhatOneRankHasWrong) {
  const Topology topology = topology_of("ring");
  EXPECT_THROW(HaloWindow(MPI_COMM_WORLD, topology, 4, {{1, false}}), Error);
  if (all_ranks() == 1) return;
  EXPECT_THROW(HaloWindow(MPI_COMM_SELF, topology, 4, {{2, false}}), Error);
  const std::size_t length = this_rank() == 0 ? 5 : 4;
  EXPECT_THROW(HaloWindow(MPI_COMM_WORLD, topology, length, {{2, false}}), Error);
  EXPECT_THROW(HaloWindow(MPI_COMM_WORLD, topology, 4, options_of(2, this_rank() == 0 ? "device" : "store")), Error);
  EXPECT_THROW(HaloWindow(MPI_COMM_WORLD, topology, 4, options_of(2, this_rank() == 0 ? "send" : "put")), Error);
}

TEST(HaloWindow, RefusesMoreThanTheNodesSharedMemory) {
  if (all_ranks() == 1 || !on_one_node()) GTEST_SKIP() << "needs several ranks on one node";
  try {
    const HaloWindow window(MPI_COMM_WORLD, topology_of("ring"), std::size_t{1} << 42, {{2, false}});
    FAIL() << "accepted halos of 16 TiB";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/shm"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace halograd::halo_window_mpi_test
