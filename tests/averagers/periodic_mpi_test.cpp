// Local steps between exchanges, exact averages in between, momentum that travels, and the choice of the period.
#include <gtest/gtest.h>

#include "averagers/consensus_control.hpp"
#include "tests/averagers/replicas.hpp"
#include "tests/window/device_halos.hpp"

namespace halograd::periodic_mpi_test {
namespace {

constexpr std::size_t length = 103;

AveragerConfig config_of(const std::string& name, const std::string& order = "combine_then_adapt") {
  AveragerConfig config;
  config.name = name;
  config.order = order;
  return config;
}

std::unique_ptr<Averager> make(const AveragerConfig& config, const Descent& descent, std::int64_t first_step = 0,
                               HaloMemory memory = HaloMemory::host) {
  AveragerContext context{config, CommConfig(), topology_of("ring"), MPI_COMM_WORLD, length, first_step};
  context.halo_memory = memory;
  if (descent.momentum != 0) context.optimizer_state = {descent.velocity.device()};
  return make_averager(context);
}

TEST(Periodic, ExchangesInEveryHthStepAndCountsWhatItSends) {
  for (const char* order : {"combine_then_adapt", "adapt_then_combine"}) {
    AveragerConfig config = config_of("neighbour", order);
    config.every = 3;
    const Descent descent(length);
    Values weights(start_of(this_rank(), length));
    const auto averager = make(config, descent);
    train(*averager, weights, 0, 4, 1, descent);
    const std::int64_t half_way = averager->bytes_sent();
    {  // goes on from any step
      const auto again = make(config, descent, 4);
      train(*again, weights, 4, 11, 1, descent);
      EXPECT_EQ(again->period(), 3);
      const auto degree = static_cast<std::int64_t>(topology_of("ring").out_neighbours(this_rank()).size());
      EXPECT_EQ(half_way, degree * 4 * static_cast<std::int64_t>(length));
      EXPECT_EQ(again->bytes_sent(), 2 * half_way);
      EXPECT_DOUBLE_EQ(bytes_per_step(config, topology_of("ring"), this_rank(), length), half_way / 3.0);
    }
    Simulation expected(length);
    for (int step = 0; step < 11; ++step) {
      const bool exchange = step == 2 || step == 5 || step == 8;
      expected.take_gradients();
      if (exchange && config.order == "combine_then_adapt") expected.mix(topology_of("ring"), expected.x);
      expected.update();
      if (exchange && config.order == "adapt_then_combine") expected.mix(topology_of("ring"), expected.x);
    }
    EXPECT_LT(expected.error(expected.x, weights.get()), 2e-6) << order;
  }
}

TEST(Periodic, LocalSgdTakesTheExactMeanEveryGthStep) {
  AveragerConfig config = config_of("none");
  config.global_every = 4;
  config.momentum = "averaged";
  const Descent descent(length, 0.5F);
  Values weights(start_of(this_rank(), length));
  const auto averager = make(config, descent);
  train(*averager, weights, 0, 8, 1, descent);
  EXPECT_EQ(averager->period(), 0);
  Simulation expected(length, 0.5);
  const Topology complete = topology_of("complete");
  for (int step = 0; step < 8; ++step) {
    expected.take_gradients();
    expected.update();
    if (step % 4 == 3) {
      expected.mix(complete, expected.x);
      expected.mix(complete, expected.v);
    }
  }
  EXPECT_LT(expected.error(expected.x, weights.get()), 2e-6);
  EXPECT_LT(expected.error(expected.v, descent.velocity.get()), 2e-6);
  std::vector<float> of_rank_0 = weights.get();
  MPI_Bcast(of_rank_0.data(), static_cast<int>(length), MPI_FLOAT, 0, MPI_COMM_WORLD);
  EXPECT_EQ(ranks_that_differ(weights.get(), of_rank_0), 0);
  EXPECT_DOUBLE_EQ(static_cast<double>(averager->bytes_sent()),
                   8 * bytes_per_step(config, topology_of("ring"), this_rank(), length, 1));
}

TEST(Periodic, GossipWithGlobalAverages) {
  AveragerConfig config = config_of("neighbour");
  config.global_every = 3;
  const Descent descent(length);
  Values weights(start_of(this_rank(), length));
  train(*make(config, descent), weights, 0, 8, 1, descent);
  Simulation expected(length);
  for (int step = 0; step < 8; ++step) {
    expected.take_gradients();
    expected.mix(topology_of("ring"), expected.x);
    expected.update();
    if (step % 3 == 2) expected.mix(topology_of("complete"), expected.x);
  }
  EXPECT_LT(expected.error(expected.x, weights.get()), 2e-6);
}

TEST(Momentum, TravelsWithTheWeightsOrStays) {
  for (const char* momentum : {"local", "averaged"}) {
    for (const bool stale : {false, true}) {
      if (stale && all_ranks() > 1) continue;  // its result depends on timing
      AveragerConfig config = config_of("neighbour", "adapt_then_combine");
      config.momentum = momentum;
      config.staleness = stale ? 1 : 0;
      const Descent descent(length, 0.9F);
      Values weights(start_of(this_rank(), length));
      const auto averager = make(config, descent);
      train(*averager, weights, 0, 7, 1, descent);
      Simulation expected(length, 0.9F);
      for (int step = 0; step < 7; ++step) {
        expected.take_gradients();
        expected.update();
        expected.mix(topology_of("ring"), expected.x);
        if (config.momentum == "averaged") expected.mix(topology_of("ring"), expected.v);
      }
      EXPECT_LT(expected.error(expected.x, weights.get()), 4e-6) << momentum;
      EXPECT_LT(expected.error(expected.v, descent.velocity.get()), 4e-6) << momentum;
      EXPECT_DOUBLE_EQ(static_cast<double>(averager->bytes_sent()),
                       7 * bytes_per_step(config, topology_of("ring"), this_rank(), length, 1));
    }
  }
}

TEST(Momentum, TravelsThroughDeviceMemoryWithTheSameBits) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  for (const int every : {1, 3}) {
    AveragerConfig config = config_of("neighbour");
    config.momentum = "averaged";
    config.every = every;
    std::vector<std::vector<float>> weights, velocities;
    for (const HaloMemory memory : {HaloMemory::host, HaloMemory::device}) {
      const Descent descent(length, 0.9F);
      Values x(start_of(this_rank(), length));
      train(*make(config, descent, 0, memory), x, 0, 7, 1, descent);
      weights.push_back(x.get());
      velocities.push_back(descent.velocity.get());
    }
    EXPECT_EQ(ranks_that_differ(weights[0], weights[1]), 0) << every;
    EXPECT_EQ(ranks_that_differ(velocities[0], velocities[1]), 0) << every;
  }
}

/// The projections of a vector of this rank that has `length` equal entries.
std::array<double, sketch_width> projected(float value, std::uint64_t key) {
  const Values values(std::vector<float>(length, value));
  return sketch(ExecutionSpace(), key, values.device());
}

TEST(ConsensusControl, MeasuresTheDistanceAndHalvesOrAddsOne) {
  // Entries are +1 and -1 by rank, of an odd last rank 0: the mean is 0, and ||x_i||^2 is length, or 0 of the last.
  const int pairs = all_ranks() / 2 * 2;
  const float value = this_rank() >= pairs ? 0 : (this_rank() % 2 == 0 ? 1 : -1);
  const double distance = static_cast<double>(length) * pairs / all_ranks();
  ConsensusControl control(MPI_COMM_WORLD, nullptr, 2, 10);
  EXPECT_EQ(control.next_period(8, projected(value, 5), 4), 8) << "nothing is known yet";
  control.finish();
  // All vectors are the same but for a factor: so are the estimates' errors.
  double estimate = 0;
  const Values ones(std::vector<float>(length, 1));
  for (const double each : sketch(ExecutionSpace(), 5, ones.device())) estimate += each * each / sketch_width;
  EXPECT_NEAR(control.measured()[0], distance * estimate / length, 1e-9 * length);
  EXPECT_DOUBLE_EQ(control.measured()[1], 4);
  const bool apart = all_ranks() > 1;
  EXPECT_EQ(control.next_period(8, projected(0, 6), 4), apart ? 4 : 9) << "further apart than twice a step of 2";
  EXPECT_EQ(control.next_period(4, projected(value, 7), 1e9), 5) << "all are equal";
  EXPECT_EQ(control.next_period(10, projected(0, 8), 4), 10) << "the longest, as the steps were long";
  EXPECT_EQ(control.bytes_sent(), 4 * (sketch_width + 1) * 8 * (all_ranks() - 1));
}

/// What is kept: of the averager, then of the control.
void choose_the_same_periods_and_go_on(const char* name, double target, const std::vector<std::string>& names) {
  SCOPED_TRACE(name);
  AveragerConfig config = config_of(name);
  config.every = 6;
  config.consensus_target = target;
  const Descent descent(length);
  const auto periods = [&](Averager& averager, Values& weights, std::int64_t first, std::int64_t last) {
    std::vector<float> result;
    for (std::int64_t step = first; step < last; ++step) {
      train(averager, weights, step, step + 1, 1, descent);
      result.push_back(static_cast<float>(averager.period()));
    }
    return result;
  };
  Values straight(start_of(this_rank(), length)), stopped(start_of(this_rank(), length));
  const std::vector<float> all = periods(*make(config, descent), straight, 0, 30);
  std::vector<float> of_rank_0 = all;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(all.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  EXPECT_EQ(ranks_that_differ(all, of_rank_0), 0);
  EXPECT_GT(*std::max_element(all.begin(), all.end()), 1);

  std::vector<float> parts;
  std::int64_t first = 0;
  std::unique_ptr<Averager> averager = make(config, descent);
  for (const std::int64_t last : {7, 20, 30}) {
    const std::vector<float> part = periods(*averager, stopped, first, last);
    parts.insert(parts.end(), part.begin(), part.end());
    const Kept kept(*averager);
    EXPECT_EQ(kept.names(), names);
    averager.reset();
    averager = make(config, descent, last);
    kept.restore(*averager);
    first = last;
  }
  EXPECT_EQ(parts, all);
  EXPECT_EQ(ranks_that_differ(stopped.get(), straight.get()), 0);
}

TEST(ConsensusControl, ChoosesTheSamePeriodsOnAllRanksAndGoesOnWithThem) {
  choose_the_same_periods_and_go_on("neighbour", 6, {"period", "consensus"});
  choose_the_same_periods_and_go_on("easgd", 60, {"centre", "started", "period", "consensus"});
}

}  // namespace
}  // namespace halograd::periodic_mpi_test
