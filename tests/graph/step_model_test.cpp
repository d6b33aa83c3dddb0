#include "graph/step_model.hpp"

#include <gtest/gtest.h>

namespace halograd::step_model_test {
namespace {

constexpr double gigabyte = 1e9;

Topology topology_of(const std::string& kind, int ranks, const std::vector<int>& nodes) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, ranks, nodes);
}

std::vector<int> blocks(int ranks, int node_ranks) {
  std::vector<int> nodes(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) nodes[static_cast<std::size_t>(rank)] = rank / node_ranks;
  return nodes;
}

/// 1 us, 10 GB/s, memory so fast that it costs nothing.
Machine network_only(int ranks_per_node = 1) {
  return {1e-6, 10 * gigabyte, 1e30, ranks_per_node};
}

TEST(EdgeLoad, CountsEdgesInsideAndBetweenNodes) {
  const std::vector<int> nodes = blocks(64, 8);
  const EdgeLoad torus = edge_load(topology_of("torus2d", 64, nodes), nodes);
  EXPECT_DOUBLE_EQ(torus.mean, 4);
  EXPECT_EQ(torus.most, 4);
  EXPECT_EQ(torus.crossing, 12);  // tiles of 2 x 4
  const std::vector<int> star_nodes = blocks(8, 1);
  const EdgeLoad star = edge_load(topology_of("star", 8, star_nodes), star_nodes);
  EXPECT_DOUBLE_EQ(star.mean, 14.0 / 8);
  EXPECT_EQ(star.most, 7);
  EXPECT_FALSE(star.inside);
  EXPECT_EQ(star.crossing, 7);
}

TEST(StepModel, NeighboursByHand) {
  const std::vector<int> nodes = blocks(16, 1);
  const EdgeLoad ring = edge_load(topology_of("ring", 16, nodes), nodes);
  StepWork work{0.010, 0.1 * gigabyte, 1, 0, 0};
  StepEstimate step = neighbour_step(network_only(), work, ring);
  EXPECT_DOUBLE_EQ(step.bytes, 2 * work.model_bytes);
  EXPECT_NEAR(step.exchange_seconds, 2e-6 + 0.020, 1e-12);
  EXPECT_NEAR(step.step_seconds, 0.010 + 2e-6 + 0.020, 1e-12);
  EXPECT_NEAR(step.efficiency, 0.010 / 0.030002, 1e-9);
  work.hidden_exchange = 1;  // 10 of 20 ms are hidden
  EXPECT_NEAR(neighbour_step(network_only(), work, ring).step_seconds, 0.020 + 2e-6, 1e-12);
  work.every = 4;  // and what is left is shared by four steps
  step = neighbour_step(network_only(), work, ring);
  EXPECT_NEAR(step.step_seconds, 0.010 + 0.25 * (0.010 + 2e-6), 1e-12);
  EXPECT_DOUBLE_EQ(step.bytes, 0.5 * work.model_bytes);
}

TEST(StepModel, MemoryIsNotHidden) {
  const std::vector<int> one_node = blocks(4, 4);
  Machine machine = network_only(4);
  machine.memory_bandwidth = 10 * gigabyte;
  const StepWork work{1.0, 0.1 * gigabyte, 1, 1, 1};
  const StepEstimate step = neighbour_step(machine, work, edge_load(topology_of("ring", 4, one_node), one_node));
  EXPECT_EQ(step.exchange_seconds, 0);                  // no network
  EXPECT_NEAR(step.step_seconds, 1 + 4 * 0.01, 1e-12);  // two halos read, one copy of the weights written
}

TEST(StepModel, RanksOfANodeShareItsNetwork) {
  const StepWork work{0.010, 0.1 * gigabyte, 1, 0, 0};
  const double one = gossip_step(network_only(1), work, 64).exchange_seconds;
  EXPECT_NEAR(one, 2e-6 + 0.010, 1e-12);
  EXPECT_NEAR(gossip_step(network_only(8), work, 64).exchange_seconds, 2e-6 + 0.080, 1e-12);
}

TEST(StepModel, AllreducesByHand) {
  StepWork work{0.030, 0.1 * gigabyte, 8, 1, 0};
  const StepEstimate ring = ring_allreduce_step(network_only(), work, 1000);
  EXPECT_NEAR(ring.exchange_seconds, 1998e-6 + 2 * 0.999 * 0.010, 1e-12);
  EXPECT_NEAR(ring.step_seconds, 0.030 + ring.exchange_seconds, 1e-12);  // each step, whatever H is
  EXPECT_NEAR(ring.bytes, 2 * 0.999 * work.model_bytes, 1);
  const StepEstimate tree = tree_allreduce_step(network_only(), work, 1000);
  EXPECT_NEAR(tree.exchange_seconds, 20e-6 + 0.020, 1e-12);
  work.hidden_allreduce = 2. / 3;
  EXPECT_NEAR(tree_allreduce_step(network_only(), work, 1000).step_seconds, 0.030 + 20e-6, 1e-12);
  work.compute_seconds = 0.300;  // far more than the bandwidth needs; the last bucket's messages come after it
  EXPECT_NEAR(tree_allreduce_step(network_only(), work, 1000).step_seconds, 0.300 + 20e-6, 1e-12);
  EXPECT_NEAR(ring_allreduce_step(network_only(), work, 1000).step_seconds, 0.300 + 1998e-6, 1e-12);
}

TEST(StepModel, OneRankNeedsNobody) {
  const StepWork work{0.5, gigabyte, 1, 1, 1};
  const std::vector<int> nodes{0};
  for (const StepEstimate& step :
       {neighbour_step({}, work, edge_load(topology_of("ring", 1, nodes), nodes)), gossip_step({}, work, 1),
        ring_allreduce_step({}, work, 1), tree_allreduce_step({}, work, 1)}) {
    EXPECT_EQ(step.efficiency, 1);
    EXPECT_EQ(step.bytes, 0);
  }
}

}  // namespace
}  // namespace halograd::step_model_test
