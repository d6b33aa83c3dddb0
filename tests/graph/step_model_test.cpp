#include "graph/step_model.hpp"

#include <gtest/gtest.h>

#include "kernels/error.hpp"

namespace halograd::step_model_test {
namespace {

constexpr double gigabyte = 1e9;

std::vector<EdgeLoad> loads_of(const std::string& kind, int ranks, int ranks_per_node = 1) {
  TopologyConfig config;
  config.kind = kind;
  const std::vector<int> nodes = nodes_of_consecutive(ranks, ranks_per_node);
  return edge_loads(make_topology(config, ranks, nodes), nodes);
}

/// 1 us, 10 GB/s, memory so fast that it costs nothing.
Machine network_only(int ranks_per_node = 1) {
  return {1e-6, 10 * gigabyte, 1e30, ranks_per_node};
}

/// 100 MB to each neighbour: 10 ms over the network.
ExchangeWork exchange_of(double hidden, int every = 1) {
  return {.message_bytes = 0.1 * gigabyte, .every = every, .hidden = hidden};
}

TEST(EdgeLoads, CountEdgesInsideAndBetweenNodes) {
  const EdgeLoad torus = loads_of("torus2d", 64, 8).front();
  EXPECT_DOUBLE_EQ(torus.mean, 4);
  EXPECT_EQ(torus.most, 4);
  EXPECT_EQ(torus.crossing, 12);  // tiles of 2 x 4
  const EdgeLoad star = loads_of("star", 8).front();
  EXPECT_DOUBLE_EQ(star.mean, 14.0 / 8);
  EXPECT_EQ(star.most, 7);
  EXPECT_FALSE(star.inside);
  EXPECT_EQ(star.crossing, 7);
}

TEST(EdgeLoads, FollowAGraphThatChanges) {
  const std::vector<EdgeLoad> loads = loads_of("one_peer_exponential", 8, 2);
  ASSERT_EQ(loads.size(), 3U);  // hops of 1, 2 and 4 ranks
  EXPECT_EQ(loads[0].crossing, 1);
  EXPECT_TRUE(loads[0].inside);
  EXPECT_EQ(loads[1].crossing, 2);
  EXPECT_FALSE(loads[1].inside);
  EXPECT_EQ(loads[2].crossing, 2);
  for (const EdgeLoad& load : loads) EXPECT_DOUBLE_EQ(load.mean, 1);
  EXPECT_THROW(loads_of("random_matching", 8), Error);
}

TEST(StepModel, NeighboursByHand) {
  const std::vector<EdgeLoad> ring = loads_of("ring", 16);
  const StepWork work{0.010};
  StepEstimate step = lockstep_step(network_only(), work, exchange_of(0), ring);
  EXPECT_DOUBLE_EQ(step.bytes, 0.2 * gigabyte);
  EXPECT_NEAR(step.exchange_seconds, 2e-6 + 0.020, 1e-12);
  EXPECT_NEAR(step.step_seconds, 0.010 + 2e-6 + 0.020, 1e-12);
  EXPECT_NEAR(step.efficiency, 0.010 / 0.030002, 1e-9);
  // 10 of 20 ms are hidden
  EXPECT_NEAR(lockstep_step(network_only(), work, exchange_of(1), ring).step_seconds, 0.020 + 2e-6, 1e-12);
  step = lockstep_step(network_only(), work, exchange_of(1, 4), ring);  // and what is left is shared by four steps
  EXPECT_NEAR(step.step_seconds, 0.010 + 0.25 * (0.010 + 2e-6), 1e-12);
  EXPECT_DOUBLE_EQ(step.bytes, 0.05 * gigabyte);
  EXPECT_EQ(step.period, 4);
}

TEST(StepModel, MemoryAndCodingAreNotHidden) {
  Machine machine = network_only(4);
  machine.memory_bandwidth = 10 * gigabyte;
  ExchangeWork exchange = exchange_of(1);
  exchange.memory_bytes = 0.4 * gigabyte;
  exchange.coding_seconds = 0.005;
  const StepEstimate step = lockstep_step(machine, {1.0}, exchange, loads_of("ring", 4, 4));
  EXPECT_EQ(step.exchange_seconds, 0);  // no network
  EXPECT_NEAR(step.step_seconds, 1 + 0.04 + 0.005, 1e-12);
}

TEST(StepModel, RanksOfANodeShareItsNetwork) {
  const StepWork work{0.010};
  const double one =
      lockstep_step(network_only(1), work, exchange_of(0), loads_of("one_peer_exponential", 64, 1)).exchange_seconds;
  EXPECT_NEAR(one, 2e-6 + 0.010, 1e-12);
  // With hops of 1, 2, 4, 8, 16 and 32 ranks, 1, 2, 4, 8, 8 and 8 ranks of a node send to another node.
  const double eight =
      lockstep_step(network_only(8), work, exchange_of(0), loads_of("one_peer_exponential", 64, 8)).exchange_seconds;
  EXPECT_NEAR(eight, 2e-6 + 0.010 * (1 + 2 + 4 + 8 + 8 + 8) / 6, 1e-12);
}

/// 5 ms for the 200 MB that a rank sends.
TEST(StepModel, ATransportTakesTheComputingBesideIt) {
  Machine machine = network_only();
  machine.transport = 0.025e-9;
  const std::vector<EdgeLoad> ring = loads_of("ring", 16);
  const StepWork work{0.100};
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(1), ring).step_seconds, 0.105, 1e-12);
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(1, 4), ring).step_seconds, 0.100 + 0.005 / 4, 1e-12);
  EXPECT_NEAR(free_step(machine, work, exchange_of(1), ring).step_seconds, 0.105, 1e-12);
  // while a rank waits there is no computing to take
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(0), ring).step_seconds, 0.120 + 2e-6, 1e-12);
  EXPECT_NEAR(lockstep_step(machine, {0.010}, exchange_of(1), ring).step_seconds, 0.020 + 2e-6, 1e-12);
  const double lost = 2 * 0.999 * 0.0025;
  EXPECT_NEAR(ring_allreduce_step(machine, {0.300}, exchange_of(2. / 3), 1000).step_seconds, 0.300 + lost + 1998e-6,
              1e-12);
  machine.transport = 1e-9;  // slower than the network
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(0), ring).step_seconds, 0.300, 1e-12);
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(1), ring).step_seconds, 0.200, 1e-12);
  machine.transport = 0.025e-9;
  // one of two edges leaves the node, or none
  machine.ranks_per_node = 2;
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(1), loads_of("ring", 16, 2)).step_seconds, 0.1025, 1e-12);
  EXPECT_NEAR(lockstep_step(machine, work, exchange_of(1), loads_of("ring", 2, 2)).step_seconds, 0.100, 1e-12);
  EXPECT_NEAR(ring_allreduce_step(machine, work, exchange_of(2. / 3), 2).step_seconds,
              ring_allreduce_step(network_only(2), work, exchange_of(2. / 3), 2).step_seconds, 1e-15);
}

TEST(StepModel, GroupsByHand) {
  const GroupTraffic traffic{50, 0.1 * gigabyte};
  EXPECT_NEAR(group_seconds(network_only(1), traffic, 2), 50 * 2e-6 + 0.010, 1e-12);
  EXPECT_NEAR(group_seconds(network_only(2), traffic, 4), 50 * 2e-6 + 0.020, 1e-12);  // two ranks share a network
  EXPECT_EQ(group_seconds(network_only(4), traffic, 4), 0);                           // on a node
  EXPECT_EQ(group_seconds(network_only(1), {}, 1), 0);
}

/// A slow rank holds up everybody in lockstep and nobody at a free pace, whose ranks send as often as the network
/// takes.
TEST(StepModel, AFreePaceWaitsForNobody) {
  const std::vector<EdgeLoad> ring = loads_of("ring", 4);
  StepWork work{0.010};
  work.uneven.slowest = 4;
  StepEstimate step = free_step(network_only(), work, exchange_of(1), ring);
  EXPECT_NEAR(step.step_seconds, 4 / (3 / 0.010 + 1 / 0.040), 1e-12);
  EXPECT_EQ(step.period, 3);  // 20.002 ms of 10
  EXPECT_NEAR(step.bytes, 0.2 * gigabyte / 3, 1);
  EXPECT_NEAR(lockstep_step(network_only(), work, exchange_of(1), ring).step_seconds, 0.040, 1e-12);
  work.uneven = {0.3, 1};
  step = free_step(network_only(), work, exchange_of(1), ring);
  EXPECT_NEAR(step.step_seconds, 0.010, 1e-12);
}

TEST(StepModel, AllreducesByHand) {
  StepWork work{0.030};
  const StepEstimate ring = ring_allreduce_step(network_only(), work, exchange_of(0), 1000);
  EXPECT_NEAR(ring.exchange_seconds, 1998e-6 + 2 * 0.999 * 0.010, 1e-12);
  EXPECT_NEAR(ring.step_seconds, 0.030 + ring.exchange_seconds, 1e-12);
  EXPECT_NEAR(ring.bytes, 2 * 0.999 * 0.1 * gigabyte, 1);
  const StepEstimate tree = tree_allreduce_step(network_only(), work, exchange_of(0), 1000);
  EXPECT_NEAR(tree.exchange_seconds, 20e-6 + 0.020, 1e-12);
  const ExchangeWork hidden = exchange_of(2. / 3);
  EXPECT_NEAR(tree_allreduce_step(network_only(), work, hidden, 1000).step_seconds, 0.030 + 20e-6, 1e-12);
  work.compute_seconds = 0.300;  // far more than the bandwidth needs; the last bucket's messages come after it
  EXPECT_NEAR(tree_allreduce_step(network_only(), work, hidden, 1000).step_seconds, 0.300 + 20e-6, 1e-12);
  EXPECT_NEAR(ring_allreduce_step(network_only(), work, hidden, 1000).step_seconds, 0.300 + 1998e-6, 1e-12);
  ExchangeWork late = hidden;  // a tenth of the gradient is, too: 2 ms
  late.last_bytes = 0.01 * gigabyte;
  EXPECT_NEAR(tree_allreduce_step(network_only(), work, late, 1000).step_seconds, 0.300 + 20e-6 + 2e-3, 1e-12);
  work.uneven.spread = 0.1;  // and all wait for the slowest of 1000: 3.24144 standard deviations
  EXPECT_NEAR(tree_allreduce_step(network_only(), work, hidden, 1000).step_seconds, 0.300 * 1.324144 + 20e-6, 1e-6);
}

TEST(StepModel, OneRankNeedsNobody) {
  const StepWork work{0.5, {0.1, 2}};
  const std::vector<EdgeLoad> nobody = loads_of("ring", 1);
  const ExchangeWork exchange{gigabyte, gigabyte, 1, 1, 0};
  for (const StepEstimate& step :
       {lockstep_step({}, work, exchange, nobody), free_step({}, work, exchange, nobody),
        ring_allreduce_step({}, work, exchange, 1), tree_allreduce_step({}, work, exchange, 1)}) {
    EXPECT_EQ(step.efficiency, 1);
    EXPECT_EQ(step.bytes, 0);
  }
}

}  // namespace
}  // namespace halograd::step_model_test
