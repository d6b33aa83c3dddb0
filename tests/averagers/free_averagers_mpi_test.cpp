// Push-sum and FAST without steps in common: what they keep whatever the pace of the ranks, and that nobody waits.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/error.hpp"
#include "tests/averagers/replicas.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::free_averagers_mpi_test {
namespace {

AveragerConfig free(const std::string& name) {
  AveragerConfig config;
  config.name = name;
  config.staleness = -1;
  return config;
}

double sum_over_all(double value) {
  return Communicator(MPI_COMM_WORLD).sum(value);
}

void barrier() {
  Communicator(MPI_COMM_WORLD).barrier();
}

double sum_of(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// The largest difference of a value from that of `start` moved by `move`.
double error_of(const std::vector<float>& found, const std::vector<float>& start, double move) {
  double error = 0;
  for (std::size_t i = 0; i < start.size(); ++i) error = larger_error(error, found[i] - (start[i] + move));
  return error;
}

double w_of(Averager& averager) {
  return std::get<std::span<double>>(averager.state().front().values)[0];
}

// Push-sum ------------------------------------------------------------------------------------------------------------

class FreePushSum : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static constexpr std::size_t length = 300;

  [[nodiscard]] std::unique_ptr<Averager> make(int every = 1) const {
    TopologyConfig topology;
    topology.kind = std::get<0>(GetParam());
    topology.weights = "out_degree";
    AveragerConfig config = free("push_sum");
    config.every = every;
    return make_averager({config, CommConfig{.force_put = std::get<1>(GetParam())},
                          make_topology(topology, all_ranks()), MPI_COMM_WORLD, length, 0});
  }
  /// Steps in which the optimizer adds `move` to every weight. Rank 0 is slow.
  static void step(Averager& averager, const Values& z, int steps, float move = 0) {
    const ExecutionSpace exec;
    const Buffer<float> gradient("gradient", length);
    for (int step = 0; step < steps; ++step) {
      averager.before_gradient(exec, step, z.device());
      std::this_thread::sleep_for(std::chrono::microseconds(this_rank() == 0 ? 400 : 50));
      averager.update(exec, step, z.device(), gradient, 1, [&](std::size_t, std::size_t) {
        std::vector<float> values = z.get();
        for (float& value : values) value += move;
        z.set(values);
      });
      exec.fence();
    }
  }
  static int own_steps() { return 8 + 5 * this_rank() % 17; }
  /// The mean of all weights by the ranks' w.
  static double mean_by_w(Averager& averager, const Values& z) {
    const double w = w_of(averager);
    return sum_over_all(w * sum_of(z.get())) / sum_over_all(w) / length;
  }
};

TEST_P(FreePushSum, KeepsTheSumsOfXAndWAndComesToTheMeanWhateverThePaceOfTheRanks) {
  const auto averager = make();
  const Values z(start_of(this_rank(), length));
  const Consensus start = consensus_of(z.get());
  double error = start.error;
  int rounds = 0;
  for (; rounds < 200 && error > 1e-3 * start.error + 1e-6; ++rounds) {
    step(*averager, z, own_steps());
    EXPECT_LE(sum_over_all(w_of(*averager)), all_ranks() + 1e-9);  // the rest is under way
    averager->settle(ExecutionSpace(), z.device());
    EXPECT_NEAR(sum_over_all(w_of(*averager)), all_ranks(), 1e-9);
    EXPECT_GE(w_of(*averager), 0.5 - 1e-12);
    error = consensus_of(z.get()).error;
  }
  EXPECT_LT(rounds, 200) << "of the distance " << start.error << " is left " << error;
  EXPECT_NEAR(mean_by_w(*averager, z), start.mean / length, 2e-6);
  EXPECT_NEAR(consensus_of(z.get()).mean / length, start.mean / length, 1e-3);
}

TEST_P(FreePushSum, EveryStepOfEveryRankMovesTheSumOfXByTheOptimizersStep) {
  for (const int every : {1, 3}) {
    const auto averager = make(every);
    const Values z(start_of(this_rank(), length));
    const double start = sum_over_all(sum_of(z.get())) / length;
    constexpr float move = 1.0F / 64;
    double steps = 0;
    for (int round = 0; round < 6; ++round) {
      step(*averager, z, own_steps(), move);
      steps += sum_over_all(own_steps());
    }
    averager->settle(ExecutionSpace(), z.device());
    const double x = sum_over_all(w_of(*averager) * sum_of(z.get())) / length;
    EXPECT_NEAR(x, start + steps * move, 1e-5 * (std::abs(start) + steps * move)) << every;
  }
}

TEST_P(FreePushSum, ARankBehindASlowOneKeepsEnoughToTrainWith) {
  const auto averager = make();
  const Values z(start_of(this_rank(), length));
  if (this_rank() != 0) {  // rank 0 has not begun
    step(*averager, z, 400);
    EXPECT_GE(w_of(*averager), 0.5 - 1e-12);
    if (!std::get<1>(GetParam())) {
      EXPECT_EQ(averager->wait_seconds(), 0);
    }
    EXPECT_LE(error_of(z.get(), std::vector<float>(length), 0), 1);
  }
  barrier();
  if (this_rank() == 0) step(*averager, z, 5);  // what the others, who make no steps now, have left it
  averager->settle(ExecutionSpace(), z.device());
  EXPECT_NEAR(sum_over_all(w_of(*averager)), all_ranks(), 1e-9);
}

TEST_P(FreePushSum, ASnapshotTakenWithMessagesUnderWayGoesOnToNearlyTheSameMean) {
  Values z(start_of(this_rank(), length));
  const Consensus start = consensus_of(z.get());
  std::vector<float> kept_z;
  double spread = 0;
  std::unique_ptr<Kept> kept;
  {
    const auto averager = make();
    for (int round = 0; round < 4; ++round) {
      step(*averager, z, own_steps());
      averager->settle(ExecutionSpace(), z.device());
    }
    spread = consensus_of(z.get()).error;
    step(*averager, z, own_steps());  // the last messages of which nobody may have read
    kept = std::make_unique<Kept>(*averager);
    kept_z = z.get();
  }
  const auto averager = make();
  z.set(kept_z);
  kept->restore(*averager);
  EXPECT_EQ(z.get(), kept_z);
  EXPECT_NEAR(sum_over_all(w_of(*averager)), all_ranks(), 1e-9);
  const double lost = spread / std::sqrt(static_cast<double>(length)) + 1e-5;
  EXPECT_NEAR(mean_by_w(*averager, z), start.mean / length, lost);
  step(*averager, z, own_steps());
  averager->settle(ExecutionSpace(), z.device());
  EXPECT_NEAR(sum_over_all(w_of(*averager)), all_ranks(), 1e-9);
  EXPECT_NEAR(mean_by_w(*averager, z), start.mean / length, lost);
}

std::string name_of(const testing::TestParamInfo<FreePushSum::ParamType>& instance) {
  return std::get<0>(instance.param) + (std::get<1>(instance.param) ? "_put" : "_store");
}

INSTANTIATE_TEST_SUITE_P(Graphs, FreePushSum, testing::Combine(testing::Values("ring", "exponential"), testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Star, FreePushSum, testing::Combine(testing::Values("star"), testing::Values(false)), name_of);

// FAST ----------------------------------------------------------------------------------------------------------------

constexpr std::size_t length = 101;

class FreeFast : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] std::unique_ptr<Averager> make(int sync_epochs = 1, std::int64_t first_epoch = 0) const {
    AveragerConfig config = free("fast");
    config.sync_epochs = sync_epochs;
    AveragerContext context{config, CommConfig{.force_put = GetParam()}, topology_, MPI_COMM_WORLD, length};
    context.optimizer_step = [this](const ExecutionSpace&, Vector<float> weights, Vector<const float> gradient) {
      descent_.step(weights, gradient);
    };
    context.restart_optimizer = [this](const ExecutionSpace&) { descent_.velocity.set(std::vector<float>(length)); };
    context.first_epoch = first_epoch;
    return make_averager(context);
  }
  /// Steps of which all gradients are left out, so that nothing but replicas is sent, until `ranks` ranks have these
  /// weights. Whether they come to it.
  bool pass_on(Averager& averager, const std::vector<float>& expected, int ranks) const {
    const Values gradient{std::vector<float>(length)};
    for (int step = 0; step < 10'000; ++step) {
      averager.before_update(exec_, step, weights_.device(), gradient.device(), 0);
      averager.after_update(exec_, step, weights_.device());
      if (sum_over_all(weights_.get() == expected ? 1 : 0) == ranks) return true;
    }
    return false;
  }
  [[nodiscard]] std::vector<float> velocity() const { return descent_.velocity.get(); }

  const ExecutionSpace exec_{};
  const Topology topology_ = topology_of("torus2d");
  const Descent descent_{length};
  const std::vector<float> start_ = start_of(this_rank(), length);
  const Values weights_{start_};
};

TEST_P(FreeFast, MakesAStepWithEachGradientThatHasCome) {
  const auto averager = make();
  const Values gradient{std::vector<float>(length, static_cast<float>(this_rank() + 1))};
  double steps = 0;
  for (const Neighbour& neighbour : topology_.in_neighbours(this_rank())) {
    if (neighbour.rank != 0) steps += neighbour.rank + 1;  // rank 0 leaves its gradient out
  }
  for (int step = 0; step < 3; ++step) {
    averager->before_update(exec_, step, weights_.device(), gradient.device(), this_rank() == 0 ? 0 : 1);
    averager->after_update(exec_, step, weights_.device());
    averager->settle(exec_, weights_.device());  // and now all have read
  }
  EXPECT_LT(error_of(weights_.get(), start_, -3 * rate * steps), 1e-5);
}

TEST_P(FreeFast, NobodyWaitsForARankThatDoesNotReadAndItFindsOneGradientOfEach) {
  const auto averager = make();
  if (this_rank() != 0) {
    const Values gradient{std::vector<float>(length, 1.0F)};
    for (int step = 0; step < 50; ++step) {
      averager->before_update(exec_, step, weights_.device(), gradient.device(), 1);
      averager->after_update(exec_, step, weights_.device());
    }
    if (!GetParam()) {
      EXPECT_EQ(averager->wait_seconds(), 0);
    }
  }
  barrier();
  averager->settle(exec_, weights_.device());
  if (this_rank() == 0) {
    const auto neighbours = static_cast<double>(topology_.in_neighbours(0).size());
    EXPECT_LT(error_of(weights_.get(), start_, -rate * neighbours), 1e-5);
  }
  const auto sent = static_cast<double>(averager->bytes_sent());
  double came = 0;
  for (const EdgeRecord& record : averager->take_edges()) came += static_cast<double>(record.bytes);
  EXPECT_EQ(sum_over_all(sent), sum_over_all(came));
}

TEST_P(FreeFast, TheBestReplicaOfARoundSpreadsToAllThatHaveEndedIt) {
  const int ranks = all_ranks(), best = ranks / 2, late = ranks - 1;
  const auto averager = make(2);
  const auto end_epoch = [&](std::int64_t epoch, double score) {
    descent_.velocity.set(start_of(this_rank() + 50, length));
    return averager->after_epoch(exec_, epoch, weights_.device(), score);
  };
  const double score = this_rank() == best ? 0.9 : this_rank() == 0 ? std::nan("") : 0.1 * this_rank() / ranks;
  EXPECT_FALSE(end_epoch(1, 2.0));  // in the middle of a round
  EXPECT_EQ(velocity(), start_of(this_rank() + 50, length));
  if (this_rank() != late) {
    end_epoch(2, score);
    EXPECT_EQ(velocity(), std::vector<float>(length));
  }
  if (late != best) {
    EXPECT_TRUE(pass_on(*averager, start_of(best, length), ranks - 1));
  }
  if (this_rank() == late) {
    EXPECT_EQ(weights_.get(), start_);  // it waits for the late rank's own to be compared with
    end_epoch(2, score);
    EXPECT_EQ(velocity(), std::vector<float>(length));
  }
  EXPECT_TRUE(pass_on(*averager, start_of(best, length), ranks));
  EXPECT_EQ(velocity(), std::vector<float>(length));

  // In the next round the late rank has the best one; of the others the lowest rank's is taken meanwhile.
  weights_.set(start_of(this_rank() + 100, length));
  if (this_rank() != late) end_epoch(4, 0.5);
  if (late > 0) {
    EXPECT_TRUE(pass_on(*averager, start_of(100, length), ranks - 1));
  }
  if (this_rank() == late) {
    EXPECT_FALSE(end_epoch(5, 0.7));  // it was not asked after epoch 4
  }
  EXPECT_TRUE(pass_on(*averager, start_of(late + 100, length), ranks));
  EXPECT_EQ(velocity(), std::vector<float>(length));
}

TEST_P(FreeFast, AResumedRunEndsTheRoundThatItIsIn) {
  const auto averager = make(3, 4);
  const std::vector<float> moving = start_of(this_rank() + 50, length);
  descent_.velocity.set(moving);
  averager->after_epoch(exec_, 5, weights_.device(), 0.5);
  averager->settle(exec_, weights_.device());
  EXPECT_EQ(velocity(), moving);
  EXPECT_EQ(weights_.get(), start_);
  averager->after_epoch(exec_, 6, weights_.device(), 0.5);
  averager->settle(exec_, weights_.device());
  EXPECT_EQ(velocity(), std::vector<float>(length));
  EXPECT_EQ(weights_.get(), start_of(0, length));
}

TEST_P(FreeFast, SettlingBringsTheBestReplicaToAllAtOnce) {
  const auto averager = make();
  averager->after_epoch(exec_, 1, weights_.device(), 0.25);  // equally good ones: that of the lowest rank
  averager->settle(exec_, weights_.device());
  EXPECT_EQ(weights_.get(), start_of(0, length));
  const auto never = make(0);
  weights_.set(start_);
  EXPECT_FALSE(never->after_epoch(exec_, 1, weights_.device(), 0.25));
  never->settle(exec_, weights_.device());
  EXPECT_EQ(weights_.get(), start_);
}

/// Replicas of two ranks each, which hear of others' shards at different times. Replica i consists of the numbers i +
/// 1, ends its round later than those before it, and is better.
TEST(FreeFastOfGroups, AReplicaIsTakenWhenAllRanksHaveTheirShardsOfIt) {
  const Communicator world(MPI_COMM_WORLD);
  if (world.ranks() % 2 != 0) return;
  const OwnedComm group = world.split(world.rank() / 2), replicas = world.split(world.rank() % 2);
  AveragerConfig config = free("fast");
  config.sync_epochs = 1;
  TopologyConfig ring;
  ring.kind = "ring";
  AveragerContext context{config, CommConfig(), make_topology(ring, replicas.ranks()), replicas, length};
  context.optimizer_step = [](const ExecutionSpace&, Vector<float>, Vector<const float>) {};
  context.restart_optimizer = [](const ExecutionSpace&) {};
  context.group = &group;
  const auto averager = make_averager(context);
  const ExecutionSpace exec;
  const int own = replicas.rank() + 1, best = replicas.ranks();
  const Values weights(std::vector<float>(length, static_cast<float>(own))), gradient(std::vector<float>(length, 0.0F));
  int mixed = 0;
  for (int step = 0; step < 40 * best; ++step) {
    std::this_thread::sleep_for(std::chrono::microseconds(random_bits(this_rank(), step) % 300));
    averager->before_update(exec, step, weights.device(), gradient.device(), 0);
    averager->after_update(exec, step, weights.device());
    if (step == 20 * own) averager->after_epoch(exec, 1, weights.device(), 0.01 * own);
    const std::vector<float> shards = group.gather(weights.get().front());
    if (shards.front() != shards.back()) ++mixed;
  }
  EXPECT_EQ(mixed, 0) << "steps with shards of two replicas";
  averager->settle(exec, weights.device());
  EXPECT_EQ(weights.get(), std::vector<float>(length, static_cast<float>(best)));
}

INSTANTIATE_TEST_SUITE_P(Edges, FreeFast, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "put" : "store"; });

}  // namespace
}  // namespace halograd::free_averagers_mpi_test
