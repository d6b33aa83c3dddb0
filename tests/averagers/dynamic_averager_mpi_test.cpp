// Neighbour averaging on graphs that change each step.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <tuple>
#include <vector>

#include "averagers/averager.hpp"
#include "kernels/error.hpp"
#include "tests/averagers/replicas.hpp"
#include "tests/kernels/differences.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::dynamic_averager_mpi_test {
namespace {

Topology topology_of(const std::string& kind, int ranks) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, ranks);
}

struct Choice {
  std::string topology = "one_peer_exponential";
  std::string order = "combine_then_adapt";
  bool force_put = false;
  int slots = 2;
};

std::unique_ptr<Averager> make(const Choice& choice, std::size_t length, std::int64_t first_step = 0) {
  AveragerConfig config;
  config.order = choice.order;
  const CommConfig transport{.force_put = choice.force_put, .slots = choice.slots};
  const Topology topology = topology_of(choice.topology, all_ranks());
  AveragerContext context{config, transport, topology, MPI_COMM_WORLD, length, first_step};
  context.last_step = 1000;  // so that the last step of a test sends what nobody waits for
  return make_averager(context);
}

std::vector<float> trained(const Choice& choice, std::size_t length, int steps) {
  Values weights(start_of(this_rank(), length));
  const auto averager = make(choice, length);
  train(*averager, weights, 0, steps, 1);
  return weights.get();
}

/// The same with all ranks in one process, in double, from what each rank is to take from whom.
std::vector<std::vector<double>> simulated(const Choice& choice, std::size_t length, int steps) {
  const int ranks = all_ranks();
  const Topology topology = topology_of(choice.topology, ranks);
  std::vector<std::vector<double>> x;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> start = start_of(rank, length);
    x.emplace_back(start.begin(), start.end());
  }
  for (int step = 0; step < steps; ++step) {
    const auto mixed = [&](const std::vector<std::vector<double>>& values) {
      std::vector<std::vector<double>> result = values;
      const auto graph = topology.dynamic()->at(step);
      for (std::size_t i = 0; i < values.size(); ++i) {
        for (const int from : graph->in[i]) {
          for (std::size_t k = 0; k < length; ++k) {
            result[i][k] = (values[i][k] + values[static_cast<std::size_t>(from)][k]) / 2;
          }
        }
      }
      return result;
    };
    const bool combine_first = choice.order == "combine_then_adapt";
    std::vector<std::vector<double>> next = combine_first ? mixed(x) : x;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto row = static_cast<std::size_t>(rank);
      for (std::size_t k = 0; k < length; ++k) next[row][k] -= double(rate) * gradient_at(x[row][k], rank, k);
    }
    x = combine_first ? next : mixed(next);
  }
  return x;
}

class DynamicNeighbour : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  Choice choice_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(DynamicNeighbour, FollowsItsRuleAsSimulatedInOneProcess) {
  constexpr std::size_t length = 203;
  const std::vector<float> x = trained(choice_, length, 12);
  const std::vector<double> expected = simulated(choice_, length, 12)[static_cast<std::size_t>(this_rank())];
  double error = 0;
  for (std::size_t i = 0; i < length; ++i) error = larger_error(error, x[i] - expected[i]);
  EXPECT_LT(error, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Graphs, DynamicNeighbour,
                         testing::Combine(testing::ValuesIn(DynamicTopology::kinds()),
                                          testing::Values("combine_then_adapt", "adapt_then_combine")),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                         });

TEST(DynamicNeighbourAverager, IsBitwiseTheSameByStoreAndByPutAndGoesOnFromAnyStep) {
  constexpr std::size_t length = 1001;
  for (const std::string& kind : DynamicTopology::kinds()) {
    const std::vector<float> straight = trained({kind}, length, 9);
    for (const bool force_put : {false, true}) {
      for (const int slots : {2, 3}) {
        const Choice choice{kind, "combine_then_adapt", force_put, slots};
        Values weights(start_of(this_rank(), length));
        {
          const auto averager = make(choice, length);
          train(*averager, weights, 0, 4, 1);
        }
        const auto averager = make(choice, length, 4);
        train(*averager, weights, 4, 9, 1);
        EXPECT_EQ(ranks_that_differ(straight, weights.get()), 0) << kind << force_put << slots;
      }
    }
  }
}

TEST(DynamicNeighbourAverager, AgreesAtOnceOnPowersOfTwoAndKeepsTheMean) {
  constexpr std::size_t length = 2000;
  for (const std::string& kind : DynamicTopology::kinds()) {
    Values weights(start_of(this_rank(), length));
    const auto averager = make({kind}, length);
    const Buffer<float> gradient("gradient", length);
    const ExecutionSpace exec;
    const Consensus start = consensus_of(weights.get());
    const int steps = 3;  // log2 of 8
    for (int step = 0; step < steps; ++step) {
      averager->before_gradient(exec, step, weights.device());
      averager->before_update(exec, step, weights.device(), gradient, 1.0 / all_ranks());
      averager->after_update(exec, step, weights.device());
    }
    const Consensus end = consensus_of(weights.get());
    EXPECT_NEAR(end.mean / length, start.mean / length, 6e-8) << kind;
    if (kind != "random_matching" && all_ranks() != 3) {
      EXPECT_LT(end.error, 1e-6 * (start.error + 1)) << kind;
    }
  }
}

TEST(DynamicNeighbourAverager, SendsOneReplicaAStep) {
  for (const std::string& kind : DynamicTopology::kinds()) {
    const auto averager = make({kind}, 100);
    Values weights(start_of(0, 100));
    train(*averager, weights, 0, 30, 1);
    const Topology topology = topology_of(kind, all_ranks());
    std::int64_t sent = 0;
    for (int step = 0; step < 30; ++step) {
      sent += 400 * static_cast<std::int64_t>(topology.dynamic()->at(step)->out[std::size_t(this_rank())].size());
    }
    EXPECT_EQ(averager->bytes_sent(), sent);
    const bool pauses = kind == "random_matching" && all_ranks() % 2 == 1;
    const double pause = pauses ? 1.0 / all_ranks() : 0;
    EXPECT_NEAR(static_cast<double>(bytes_per_step({"neighbour"}, topology, this_rank(), 100)),
                all_ranks() == 1 ? 0 : 400 * (1 - pause), 0.5);
    EXPECT_EQ(bytes_per_step({"allreduce"}, topology, this_rank(), 100), 2 * (all_ranks() - 1) * 400 / all_ranks());
  }
}

TEST(DynamicNeighbourAverager, RefusesStalenessAndColumnStochasticWeights) {
  AveragerConfig stale;
  stale.staleness = 1;
  const Topology matching = topology_of("random_matching", all_ranks());
  EXPECT_THROW(make_averager({stale, {}, matching, MPI_COMM_WORLD, 4, 0}), Error);
  TopologyConfig config;
  config.weights = "out_degree";
  const Topology ring = make_topology(config, all_ranks());
  EXPECT_THROW(make_averager({{}, {}, ring, MPI_COMM_WORLD, 4, 0}), Error);
}

}  // namespace
}  // namespace halograd::dynamic_averager_mpi_test
