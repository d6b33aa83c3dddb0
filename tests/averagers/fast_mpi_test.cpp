// FAST: the neighbours' gradients as further steps of the optimizer, and the best replica for all.
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/averagers/replicas.hpp"

namespace halograd::fast_mpi_test {
namespace {

constexpr std::size_t length = 101;

std::unique_ptr<Averager> make(const Descent& descent, int sync_epochs = 1, bool force_put = false) {
  AveragerConfig config;
  config.name = "fast";
  config.sync_epochs = sync_epochs;
  AveragerContext context{config, CommConfig{.force_put = force_put}, topology_of("torus2d"), MPI_COMM_WORLD, length};
  context.optimizer_step = [&descent](const ExecutionSpace&, Vector<float> weights, Vector<const float> gradient) {
    descent.step(weights, gradient);
  };
  context.restart_optimizer = [&descent](const ExecutionSpace&) { descent.velocity.set(std::vector<float>(length)); };
  return make_averager(context);
}

/// What the neighbour in place `place` of each rank has in `values`; nothing where a rank has fewer.
std::vector<double> of_neighbours(const Simulation& all, const std::vector<double>& values, std::size_t place) {
  std::vector<double> result(values.size());
  const Topology topology = topology_of("torus2d");
  for (int rank = 0; rank < all.ranks; ++rank) {
    const auto& neighbours = topology.in_neighbours(rank);
    if (place >= neighbours.size()) continue;
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(neighbours[place].rank * length), length,
                result.begin() + static_cast<std::ptrdiff_t>(rank * length));
  }
  return result;
}

TEST(Fast, MakesAStepWithTheOwnAndEachNeighboursGradient) {
  std::size_t most = 0;
  for (int rank = 0; rank < all_ranks(); ++rank) {
    most = std::max(most, topology_of("torus2d").in_neighbours(rank).size());
  }
  for (const bool force_put : {false, true}) {
    const Descent descent(length);
    Values weights(start_of(this_rank(), length));
    const auto averager = make(descent, 1, force_put);
    train(*averager, weights, 0, 6, 1, descent);
    Simulation expected(length);
    for (int step = 0; step < 6; ++step) {
      expected.take_gradients();
      expected.update();
      for (std::size_t place = 0; place < most; ++place) expected.update(of_neighbours(expected, expected.g, place));
    }
    EXPECT_LT(expected.error(expected.x, weights.get()), 3e-6);
    AveragerConfig config;
    config.name = "fast";
    EXPECT_DOUBLE_EQ(static_cast<double>(averager->bytes_sent()),
                     6 * bytes_per_step(config, topology_of("torus2d"), this_rank(), length));
  }
}

TEST(Fast, LeavesAGradientOutThatItsRankHasLeftOut) {
  const Descent descent(length);
  Values weights(start_of(this_rank(), length)), gradient(std::vector<float>(length, 1));
  const auto averager = make(descent);
  const ExecutionSpace exec;
  averager->before_update(exec, 0, weights.device(), gradient.device(), this_rank() == 0 ? 0 : 1);
  averager->after_update(exec, 0, weights.device());
  int steps = 0;
  const Topology topology = topology_of("torus2d");
  for (const Neighbour& neighbour : topology.in_neighbours(this_rank())) {
    if (neighbour.rank != 0) ++steps;
  }
  const std::vector<float> start = start_of(this_rank(), length), found = weights.get();
  for (std::size_t i = 0; i < length; ++i) ASSERT_NEAR(found[i], start[i] - rate * static_cast<float>(steps), 1e-6);
}

TEST(Fast, AllTakeTheBestReplicaEveryFewEpochs) {
  const Descent descent(length, 0.9F);
  descent.velocity.set(start_of(this_rank() + 50, length));
  const std::vector<float> start = start_of(this_rank(), length);
  Values weights(start);
  const auto averager = make(descent, 2);
  const int best = all_ranks() / 2;
  const double score = this_rank() == best ? 0.9 : (this_rank() == 0 ? std::nan("") : 0.1 * this_rank() / all_ranks());
  EXPECT_FALSE(averager->after_epoch(ExecutionSpace(), 1, weights.device(), score));
  EXPECT_EQ(weights.get(), start);
  EXPECT_TRUE(averager->after_epoch(ExecutionSpace(), 2, weights.device(), score));
  EXPECT_EQ(weights.get(), start_of(best, length));
  EXPECT_EQ(descent.velocity.get(), std::vector<float>(length));
  const Descent other(length);
  EXPECT_FALSE(make(other, 0)->after_epoch(ExecutionSpace(), 1, weights.device(), score)) << "0: never";
}

TEST(Fast, NeedsAnOptimizer) {
  AveragerConfig config;
  config.name = "fast";
  EXPECT_THROW(make_averager({config, CommConfig(), topology_of("ring"), MPI_COMM_WORLD, length}), Error);
}

}  // namespace
}  // namespace halograd::fast_mpi_test
