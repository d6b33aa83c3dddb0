// What holds for all averagers alike: exchanges every H steps, what /edge of the metrics counts, injected latency.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/averagers/replicas.hpp"

namespace halograd::every_averager_mpi_test {
namespace {

constexpr std::size_t length = 120;

struct Case {
  std::string name, topology = "ring";
  std::string codec = "fp32";
  bool overlap = false;
  int staleness = 0;
};

/// Nodes of two ranks where there is an even number of them, for hierarchical averages.
int ranks_per_node(const AveragerConfig& config) {
  return config.name == "hierarchical" && all_ranks() % 2 == 0 ? 2 : 1;
}

class EveryAverager : public testing::TestWithParam<Case> {
 protected:
  EveryAverager() {
    config_.name = GetParam().name;
    config_.codec = GetParam().codec;
    config_.overlap = GetParam().overlap;
    config_.staleness = GetParam().staleness;
    transport_.ranks_per_node = ranks_per_node(config_);
    TopologyConfig topology;
    topology.kind = GetParam().topology;
    if (config_.name == "push_sum" && !DynamicTopology::has_kind(topology.kind)) topology.weights = "out_degree";
    topology_ = make_topology(topology, all_ranks() / ranks_per_node(config_));
  }
  [[nodiscard]] std::unique_ptr<Averager> make() const {
    AveragerContext context{config_, transport_, topology_, MPI_COMM_WORLD, length};
    context.optimizer_step = [](const ExecutionSpace&, Vector<float>, Vector<const float>) {};
    context.restart_optimizer = [](const ExecutionSpace&) {};
    return make_averager(context);
  }
  /// Steps of an optimizer that changes nothing.
  static void idle(Averager& averager, const Values& weights, std::int64_t first, std::int64_t last) {
    const ExecutionSpace exec;
    const Values gradient{std::vector<float>(length)};
    for (std::int64_t step = first; step < last; ++step) {
      averager.before_gradient(exec, step, weights.device());
      averager.before_update(exec, step, weights.device(), gradient.device(), 1.0 / all_ranks());
      averager.after_update(exec, step, weights.device());
      exec.fence();
    }
    averager.settle(exec, weights.device());
  }
  /// Whether ranks go at their own pace, so that nobody knows how many halos come.
  [[nodiscard]] bool is_free() const { return row_of(config_).pace(config_) == Pace::free; }
  /// Halos that come to this rank in a number of exchanges, where ranks keep step.
  [[nodiscard]] std::int64_t halos(std::int64_t exchanges) const {
    const int place = config_.name == "hierarchical" ? this_rank() / ranks_per_node(config_) : this_rank();
    if (topology_.dynamic() == nullptr) {
      return exchanges * static_cast<std::int64_t>(topology_.in_neighbours(place).size());
    }
    std::int64_t count = 0;
    for (std::int64_t step = 0; step < exchanges; ++step) {
      count += static_cast<std::int64_t>(topology_.dynamic()->at(step)->in[static_cast<std::size_t>(place)].size());
    }
    return count;
  }

  AveragerConfig config_;
  CommConfig transport_;
  Topology topology_ = make_topology({}, all_ranks());
};

TEST_P(EveryAverager, CountsWhatComesFromWhomAndNoneSoonerThanTheInjectedNetworkAllows) {
  constexpr std::int64_t steps = 6;
  constexpr double latency = 1e-3, bandwidth = 1e6;
  transport_.inject.latency_us = 1e6 * latency;
  transport_.inject.bandwidth_mb = 1e-6 * bandwidth;
  for (const bool force_put : {false, true}) {
    if (force_put && all_ranks() > 4) continue;  // of many ranks on few cores, puts are slow
    transport_.force_put = force_put;
    const auto averager = make();
    const Values weights(start_of(this_rank(), length));
    idle(*averager, weights, 0, steps);
    const std::vector<EdgeRecord> records = averager->take_edges();
    std::int64_t came = 0, bytes = 0;
    std::set<int> from;
    for (const EdgeRecord& record : records) {
      came += record.halos;
      bytes += record.bytes;
      from.insert(record.from);
      EXPECT_NE(record.from, this_rank());
      EXPECT_EQ(std::accumulate(record.staleness.begin(), record.staleness.end(), std::int64_t{0}), record.halos);
      EXPECT_EQ(record.skipped + record.left_out, 0);
      if (record.halos == 0) continue;
      const double least = latency + static_cast<double>(record.bytes / record.halos) / bandwidth;
      EXPECT_GE(record.least_delay, least);
      EXPECT_GE(record.delay, static_cast<double>(record.halos) * least);
    }
    EXPECT_EQ(from.size(), records.size());
    for (const EdgeRecord& record : averager->take_edges()) EXPECT_EQ(record.halos, 0);
    if (is_free()) {  // nothing is under way after settle()
      double sent_and_came[2] = {static_cast<double>(averager->bytes_sent()), static_cast<double>(bytes)};
      Communicator(MPI_COMM_WORLD).sum(std::span<double>(sent_and_came));
      EXPECT_EQ(sent_and_came[0], sent_and_came[1]);
      EXPECT_EQ(sent_and_came[0] > 0, all_ranks() > 1);
    } else {
      EXPECT_EQ(came, halos(steps));
    }
    if (config_.name == "hierarchical") {  // the rank with the same part of the weights
      for (const int rank : from) EXPECT_EQ(rank % ranks_per_node(config_), this_rank() % ranks_per_node(config_));
    }
  }
}

TEST_P(EveryAverager, ExchangesEveryHthStepAndKeepsTheMean) {
  config_.every = 3;
  if (config_.name == "gossip_grad") return;  // refused: averages of one gradient of three
  const auto averager = make();
  EXPECT_EQ(averager->period(), 3);
  const Values weights(start_of(this_rank(), length));
  const Consensus start = consensus_of(weights.get());
  const auto sent = [&](std::int64_t first, std::int64_t last) {
    const std::int64_t before = averager->bytes_sent();
    idle(*averager, weights, first, last);
    return static_cast<double>(averager->bytes_sent() - before);
  };
  if (config_.name != "ad_psgd") {
    EXPECT_EQ(sent(0, 2), 0);
  } else {
    idle(*averager, weights, 0, 2);
  }
  const double exchange = 3 * bytes_per_step(config_, topology_, this_rank(), length, 0, ranks_per_node(config_));
  if (config_.name == "ad_psgd") {  // a question a round, or the answers to those of the partners
    const std::vector<int> partners = topology_.graph()[static_cast<std::size_t>(this_rank())];
    EXPECT_LE(sent(2, 29), 9 * exchange * static_cast<double>(std::max<std::size_t>(1, partners.size())));
  } else if (is_free()) {
    EXPECT_LE(sent(2, 29), 9 * exchange);
  } else if (!config_.overlap) {
    EXPECT_NEAR(sent(2, 29), 9 * exchange,
                9.0 * length * sizeof(float));  // of a matching, one rank pauses now and then
  } else {
    idle(*averager, weights, 2, 29);
  }
  if (config_.name != "push_sum") {  // which keeps the mean of x; gossip_mpi_test.cpp holds it against its rule
    const Consensus end = consensus_of(weights.get());
    EXPECT_NEAR(end.mean / length, start.mean / length, 1e-6);
    EXPECT_LE(end.error, start.error * (1 + 1e-6));
  }
}

INSTANTIATE_TEST_SUITE_P(Names, EveryAverager,
                         testing::Values(Case{"neighbour"}, Case{"neighbour", "torus2d", "int8"},
                                         Case{"neighbour", "one_peer_exponential"},
                                         Case{"neighbour", "random_matching"}, Case{"push_sum", "star"},
                                         Case{"push_sum", "rotating_exponential", "fp32", true}, Case{"ad_psgd"},
                                         Case{"ad_psgd", "complete"}, Case{"gossip_grad", "rotating_exponential"},
                                         Case{"hierarchical"}, Case{"fast", "torus2d"},
                                         Case{"push_sum", "exponential", "fp32", false, -1},
                                         Case{"fast", "torus2d", "fp32", false, -1}),
                         [](const auto& instance) {
                           const Case& each = instance.param;
                           return each.name + "_" + each.topology + "_" + each.codec +
                                  (each.overlap ? "_overlap" : "") + (each.staleness < 0 ? "_free" : "");
                         });

TEST(Rings, TakeTheTimeOfTheirMessagesOneAfterTheOther) {
  CommConfig transport;
  transport.inject.latency_us = 2000;
  transport.inject.bandwidth_mb = 0.1;  // 0.1 bytes per microsecond
  const Values weights(start_of(this_rank(), length)), gradient{std::vector<float>(length)};
  for (const char* name : {"easgd", "allreduce"}) {
    AveragerConfig config;
    config.name = name;
    const auto averager = make_averager({config, transport, topology_of("ring"), MPI_COMM_WORLD, length});
    const auto begin = std::chrono::steady_clock::now();
    averager->before_gradient(ExecutionSpace(), 0, weights.device());
    averager->before_update(ExecutionSpace(), 0, weights.device(), gradient.device(), 1);
    const std::chrono::microseconds messages(4000 * (all_ranks() - 1)), bytes(10 * averager->bytes_sent());
    EXPECT_GE(std::chrono::steady_clock::now() - begin, messages + bytes) << name;
    EXPECT_TRUE(averager->take_edges().empty());
  }
}

}  // namespace
}  // namespace halograd::every_averager_mpi_test
