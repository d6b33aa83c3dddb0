// EASGD: replicas and a centre that draw each other.
#include <gtest/gtest.h>

#include "tests/averagers/replicas.hpp"

namespace halograd::elastic_mpi_test {
namespace {

constexpr std::size_t length = 101;

AveragerConfig config_of(double elasticity) {
  AveragerConfig config;
  config.name = "easgd";
  config.elasticity = elasticity;
  return config;
}

std::unique_ptr<Averager> make(const AveragerConfig& config, std::int64_t first_step = 0) {
  return make_averager({config, CommConfig(), topology_of("ring"), MPI_COMM_WORLD, length, first_step});
}

/// The rule as the paper has it, in double.
struct Elastic : Simulation {
  Elastic(std::size_t values, double elasticity) : Simulation(values), alpha(elasticity / ranks), centre(values) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < length; ++k) centre[k] += x[rank * length + k] / ranks;
    }
  }
  void exchange() {
    std::vector<double> pull(length);
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < length; ++k) {
        const double difference = x[rank * length + k] - centre[k];
        pull[k] += difference;
        x[rank * length + k] -= alpha * difference;
      }
    }
    for (std::size_t k = 0; k < length; ++k) centre[k] += alpha * pull[k];
  }
  double alpha;
  std::vector<double> centre;
};

TEST(Elastic, FollowsItsRuleAndSendsWhatAnAllreduceDoes) {
  for (const int every : {1, 3}) {
    AveragerConfig config = config_of(0.9);
    config.every = every;
    Values weights(start_of(this_rank(), length));
    const auto averager = make(config);
    Elastic expected(length, 0.9);
    if (every == 3) {  // the centre begins at the first exchange
      expected.take_gradients();
      expected.update();
      expected.take_gradients();
      expected.update();
      Elastic later(length, 0.9);
      later.x = expected.x;
      std::fill(later.centre.begin(), later.centre.end(), 0.0);
      for (std::size_t i = 0; i < later.x.size(); ++i) later.centre[i % length] += later.x[i] / later.ranks;
      expected = later;
    }
    train(*averager, weights, 0, 12, 1);
    for (int step = every - 1; step < 12; ++step) {
      expected.take_gradients();
      if (step % every == every - 1) expected.exchange();
      expected.update();
    }
    EXPECT_LT(expected.error(expected.x, weights.get()), 3e-6) << every;
    EXPECT_DOUBLE_EQ(static_cast<double>(averager->bytes_sent()),
                     12 * bytes_per_step(config, topology_of("ring"), this_rank(), length));
  }
}

/// With the whole elasticity, the centre is the mean of the replicas before; without gradients nothing is lost.
TEST(Elastic, ReplicasAndCentreTogetherKeepTheirSum) {
  Values weights(start_of(this_rank(), length));
  const Consensus start = consensus_of(weights.get());
  const auto averager = make(config_of(1));
  const Buffer<float> gradient("gradient", length);
  for (int step = 0; step < 40; ++step) {
    averager->before_gradient(ExecutionSpace(), step, weights.device());
    averager->before_update(ExecutionSpace(), step, weights.device(), gradient, 1);
    averager->after_update(ExecutionSpace(), step, weights.device());
  }
  const Consensus end = consensus_of(weights.get());
  EXPECT_NEAR(end.mean, start.mean, 1e-5);
  EXPECT_NEAR(end.error, start.error * std::pow(1 - 1.0 / all_ranks(), 40), 1e-5 * start.error);
}

TEST(Elastic, GoesOnWithTheSameBits) {
  Values straight(start_of(this_rank(), length)), stopped(start_of(this_rank(), length));
  train(*make(config_of(0.8)), straight, 0, 9, 1);
  auto averager = make(config_of(0.8));
  train(*averager, stopped, 0, 5, 1);
  const Kept kept(*averager);
  EXPECT_EQ(kept.names(), (std::vector<std::string>{"centre", "started"}));
  averager = make(config_of(0.8), 5);
  kept.restore(*averager);
  train(*averager, stopped, 5, 9, 1);
  EXPECT_EQ(ranks_that_differ(straight.get(), stopped.get()), 0);
}

}  // namespace
}  // namespace halograd::elastic_mpi_test
