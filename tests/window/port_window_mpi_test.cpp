#include "window/port_window.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "mpi/communicator.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/progress_thread.hpp"

namespace halograd::port_window_mpi_test {
namespace {

long total(long mine) {
  auto sum = static_cast<double>(mine);
  sum = Communicator(MPI_COMM_WORLD).sum(sum);
  return static_cast<long>(sum);
}

DynamicTopology topology_of(const std::string& kind) {
  TopologyConfig config;
  config.kind = kind;
  if (DynamicTopology::has_kind(kind)) return {config, all_ranks()};
  return {kind, make_graph(config, all_ranks())};
}

/// What rank `writer` sends in `step` at entry i: different for each of the three.
float payload(int writer, std::int64_t step, std::size_t i) {
  return random_uniform((static_cast<std::uint64_t>(writer) << 40U) + static_cast<std::uint64_t>(step), i);
}

double number_of(int writer, std::int64_t step) {
  return writer + 1.0 / static_cast<double>(step + 3);
}

std::vector<float> values_of(int writer, std::int64_t step, std::size_t length) {
  std::vector<float> values(length);
  for (std::size_t i = 0; i < length; ++i) values[i] = payload(writer, step, i);
  return values;
}

HostVector<const float> view(const std::vector<float>& values) {
  return HostVector<const float>(values.data(), values.size());
}

long wrong_entries(const PortWindow::Halo& halo, std::int64_t step) {
  long wrong = halo.number == number_of(halo.rank, step) ? 0 : 1;
  for (std::size_t i = 0; i < halo.values.extent(0); ++i) {
    wrong += halo.values(i) != payload(halo.rank, step, i) ? 1 : 0;
  }
  return wrong;
}

/// Up to `most` microseconds, other in every call, with MPI kept going so that puts into this rank's memory arrive.
void dawdle(std::uint64_t most, std::uint64_t call) {
  const auto microseconds = random_bits(static_cast<std::uint64_t>(this_rank()), call) % (most + 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// How halos go: "store", or as between nodes by "put" or "send".
TransportOptions options_of(int slots, const std::string& way) {
  TransportOptions options{slots, way != "store"};
  if (way == "send") options.carrier = Carrier::send;
  return options;
}

class PortWindowTest : public testing::TestWithParam<std::tuple<std::string, int, std::string>> {
 protected:
  void SetUp() override {
    if (options_.carrier == Carrier::send) receiver_.emplace(MPI_COMM_WORLD, 100);
  }

  DynamicTopology topology_ = topology_of(std::get<0>(GetParam()));
  TransportOptions options_ = options_of(std::get<1>(GetParam()), std::get<2>(GetParam()));
  std::optional<ProgressThread> receiver_;
};

TEST_P(PortWindowTest, EveryStepBringsTheHalosOfItsSendersWholeUnderRandomDelays) {
  constexpr std::size_t length = 2001;
  constexpr std::int64_t first = 1'000'000'000'041, steps = 50;  // beyond what int holds
  options_.put_floats = 700;                                     // several MPI_Puts a halo
  PortWindow window(MPI_COMM_WORLD, topology_, length, first, options_);
  long wrong = 0;
  std::uint64_t call = 0;
  std::size_t sent = 0;
  for (std::int64_t step = first; step < first + steps; ++step) {
    const auto graph = topology_.at(step);
    const std::vector<float> values = values_of(this_rank(), step, length);
    for (std::size_t begin = 0; step % 3 == 0 && begin < length; begin += 1000) {  // 1000, 1000 and 1 values
      window.put_ahead(begin, slice(view(values), begin, std::min<std::size_t>(1000, length - begin)));
      dawdle(100, ++call);
    }
    window.put(step, view(values), number_of(this_rank(), step));
    dawdle(100, ++call);
    window.flush();
    const std::vector<PortWindow::Halo>& halos = window.wait(step);
    std::vector<int> from;
    for (const PortWindow::Halo& halo : halos) {
      from.push_back(halo.rank);
      wrong += halo.weight == graph->weight(halo.rank) ? 0 : 1;
      wrong += wrong_entries(halo, step);
      dawdle(100, ++call);
      wrong += wrong_entries(halo, step);  // and stays until released
    }
    wrong += from == graph->in[static_cast<std::size_t>(this_rank())] ? 0 : 1;
    window.release(step);
    sent += graph->out[static_cast<std::size_t>(this_rank())].size();
  }
  EXPECT_EQ(total(wrong), 0);
  EXPECT_EQ(window.bytes_sent(), static_cast<std::int64_t>(sent * length * sizeof(float)));
}

TEST_P(PortWindowTest, AFastWriterFillsThePortsButCannotOverwriteWhatIsUnread) {
  constexpr std::size_t length = 300;
  const std::int64_t slots = options_.slots;
  PortWindow window(MPI_COMM_WORLD, topology_, length, 0, options_);
  const auto send = [&](std::int64_t step) {
    const std::vector<float> values = values_of(this_rank(), step, length);
    window.put(step, view(values), number_of(this_rank(), step));
    window.flush();
  };
  for (std::int64_t step = 0; step < slots; ++step) send(step);  // nobody reads: must not wait
  long wrong = 0;
  for (std::int64_t step = 0; step < 12; ++step) {
    if (this_rank() == 0) dawdle(3000, static_cast<std::uint64_t>(step));
    for (const PortWindow::Halo& halo : window.wait(step)) {
      if (this_rank() == 0) dawdle(3000, static_cast<std::uint64_t>(step + 100));
      wrong += wrong_entries(halo, step);
    }
    window.release(step);
    send(step + slots);  // waits for those who still read
  }
  EXPECT_EQ(total(wrong), 0);
}

std::string name_of(const testing::TestParamInfo<PortWindowTest::ParamType>& instance) {
  return std::get<0>(instance.param) + "_" + std::get<2>(instance.param);
}

INSTANTIATE_TEST_SUITE_P(Graphs, PortWindowTest,
                         testing::Combine(testing::Values("one_peer_exponential", "random_matching",
                                                          "rotating_exponential", "star"),
                                          testing::Values(2), testing::Values("store", "put", "send")),
                         name_of);
// On a graph with several senders per step, and on one where the senders of a port change.
INSTANTIATE_TEST_SUITE_P(ThreeSlots, PortWindowTest,
                         testing::Combine(testing::Values("rotating_exponential", "star"), testing::Values(3),
                                          testing::Values("store", "put", "send")),
                         name_of);

TEST(PortWindow, RefusesStepsOutOfTurnAndOtherLengths) {
  PortWindow window(MPI_COMM_WORLD, topology_of("one_peer_exponential"), 4, 7, {});
  const std::vector<float> values(4), short_values(3);
  EXPECT_THROW(window.put(8, view(values)), Error);
  EXPECT_THROW(window.put(7, view(short_values)), Error);
  EXPECT_THROW(window.wait(8), Error);
  EXPECT_THROW(window.release(6), Error);
  window.put(7, view(values));
  EXPECT_THROW(window.put(8, view(values)), Error);  // before the flush
  window.flush();
}

TEST(PortWindow, RefusesOnAllRanksWhatOneRankHasWrong) {
  const DynamicTopology topology = topology_of("random_matching");
  EXPECT_THROW(PortWindow(MPI_COMM_WORLD, topology, 4, 0, {1, false}), Error);
  if (all_ranks() == 1) return;
  EXPECT_THROW(PortWindow(MPI_COMM_SELF, topology, 4, 0, {}), Error);
  EXPECT_THROW(PortWindow(MPI_COMM_WORLD, topology, this_rank() == 0 ? 5 : 4, 0, {}), Error);
  EXPECT_THROW(PortWindow(MPI_COMM_WORLD, topology, 4, this_rank() == 0 ? 5 : 4, {}), Error);
  if (all_ranks() < 4) return;
  TopologyConfig config;
  config.kind = "random_matching";
  config.seed = this_rank() == 0 ? 2 : 1;
  EXPECT_THROW(PortWindow(MPI_COMM_WORLD, {config, all_ranks()}, 4, 0, {}), Error);
}

}  // namespace
}  // namespace halograd::port_window_mpi_test
