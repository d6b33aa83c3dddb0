// Exact averages in a node, the stencil between nodes. Consecutive ranks of this machine stand for nodes.
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "mpi/node_group.hpp"
#include "tests/averagers/replicas.hpp"

namespace halograd::hierarchical_mpi_test {
namespace {

/// Topology of nodes.
Topology ring_of(int nodes) {
  return make_topology(TopologyConfig(), nodes);
}

AveragerConfig config_of(const std::string& order) {
  AveragerConfig config;
  config.name = "hierarchical";
  config.order = order;
  return config;
}

std::unique_ptr<Averager> make(const AveragerConfig& config, int ranks_per_node, std::size_t length, bool force_put,
                               std::int64_t first_step = 0) {
  CommConfig transport;
  transport.force_put = force_put;
  transport.ranks_per_node = ranks_per_node;
  return make_averager({config, transport, ring_of(all_ranks() / ranks_per_node), MPI_COMM_WORLD, length, first_step});
}

/// W_ij of ranks: that of their nodes, shared out among the ranks of j's.
void mix(Simulation& all, int ranks_per_node) {
  const int nodes = all.ranks / ranks_per_node;
  const std::vector<double> matrix = ring_of(nodes).matrix();
  std::vector<double> result(all.x.size());
  for (int i = 0; i < all.ranks; ++i) {
    for (int j = 0; j < all.ranks; ++j) {
      const auto entry = static_cast<std::size_t>(i / ranks_per_node * nodes + j / ranks_per_node);
      for (std::size_t k = 0; k < all.length; ++k) {
        result[i * all.length + k] += matrix[entry] / ranks_per_node * all.x[j * all.length + k];
      }
    }
  }
  all.x = result;
}

TEST(Hierarchical, IsTheMeanOfANodeAndTheStencilBetweenNodes) {
  for (const int ranks_per_node : {1, 2, 4, all_ranks()}) {
    if (all_ranks() % ranks_per_node != 0) continue;
    for (const std::size_t length : {1U, 203U}) {  // shorter than a rank's share, and not divisible
      const bool cta = length > 1;
      const AveragerConfig config = config_of(cta ? "combine_then_adapt" : "adapt_then_combine");
      Values weights(start_of(this_rank(), length));
      const auto averager = make(config, ranks_per_node, length, ranks_per_node == 2);
      train(*averager, weights, 0, 6, 1);
      Simulation expected(length);
      for (int step = 0; step < 6; ++step) {
        expected.take_gradients();
        if (cta) mix(expected, ranks_per_node);
        expected.update();
        if (!cta) mix(expected, ranks_per_node);
      }
      EXPECT_LT(expected.error(expected.x, weights.get()), 2e-6) << ranks_per_node << " ranks per node";
      EXPECT_DOUBLE_EQ(
          static_cast<double>(averager->bytes_sent()),
          6 * bytes_per_step(config, ring_of(all_ranks() / ranks_per_node), this_rank(), length, 0, ranks_per_node));
    }
  }
}

TEST(Hierarchical, GoesOnWithTheSameBitsAndIsTheSameOnANode) {
  const int ranks_per_node = all_ranks() % 2 == 0 ? 2 : 1;
  const AveragerConfig config = config_of("adapt_then_combine");
  Values straight(start_of(this_rank(), 77)), stopped(start_of(this_rank(), 77));
  train(*make(config, ranks_per_node, 77, false), straight, 0, 7, 1);
  train(*make(config, ranks_per_node, 77, false), stopped, 0, 3, 1);
  train(*make(config, ranks_per_node, 77, true, 3), stopped, 3, 7, 1);
  EXPECT_EQ(ranks_that_differ(straight.get(), stopped.get()), 0);
  std::vector<float> of_first = straight.get();
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, this_rank() / ranks_per_node, 0, &node);
  MPI_Bcast(of_first.data(), 77, MPI_FLOAT, 0, node);
  MPI_Comm_free(&node);
  EXPECT_EQ(ranks_that_differ(straight.get(), of_first), 0);
}

TEST(NodeGroup, CountsNodesAndRefusesUnevenOnes) {
  const NodeGroup one = node_group(MPI_COMM_WORLD, 1);
  EXPECT_EQ(one.nodes, all_ranks());
  EXPECT_EQ(one.node, this_rank());
  EXPECT_EQ(one.ranks_per_node, 1);
  EXPECT_EQ(one.rank, 0);
  const NodeGroup machine = node_group(MPI_COMM_WORLD, 0);
  EXPECT_EQ(machine.nodes, 1);
  EXPECT_EQ(machine.rank, this_rank());
  EXPECT_EQ(machine.ranks_per_node, all_ranks());
  if (all_ranks() > 2 && all_ranks() % 3 != 0) {
    EXPECT_THROW(node_group(MPI_COMM_WORLD, 3), CollectiveError);
  }
}

}  // namespace
}  // namespace halograd::hierarchical_mpi_test
