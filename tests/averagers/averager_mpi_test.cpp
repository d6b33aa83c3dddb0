#include "averagers/averager.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/spectral_gap.hpp"
#include "kernels/error.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/random.hpp"
#include "mpi/wait.hpp"
#include "tests/averagers/replicas.hpp"
#include "tests/kernels/differences.hpp"
#include "tests/window/device_halos.hpp"

namespace halograd::averager_mpi_test {
namespace {

struct Choice {
  std::string name = "neighbour";
  std::string order = "combine_then_adapt";
  std::string topology = "ring";
  bool force_put = false;
  int slots = 2;
  HaloMemory memory = HaloMemory::host;
};

std::unique_ptr<Averager> make(const Choice& choice, std::size_t length, std::int64_t first_step = 0) {
  AveragerConfig config;
  config.name = choice.name;
  config.order = choice.order;
  const CommConfig transport{.force_put = choice.force_put, .slots = choice.slots};
  const Topology topology = topology_of(choice.topology);
  AveragerContext context{config, transport, topology, MPI_COMM_WORLD, length, first_step};
  context.halo_memory = choice.memory;
  context.last_step = 1000;  // so that the last step of a test sends what nobody waits for
  return make_averager(context);
}

std::vector<float> trained(const Choice& choice, std::size_t length, int steps, double share = 1) {
  Values weights(start_of(this_rank(), length));
  const auto averager = make(choice, length);
  train(*averager, weights, 0, steps, share);
  return weights.get();
}

/// The same with all ranks in one process, in double, from the mixing matrix: rows of x are ranks.
std::vector<double> simulated(const Choice& choice, std::size_t length, int steps) {
  const int ranks = all_ranks();
  const std::vector<double> matrix = topology_of(choice.topology).matrix();
  std::vector<double> x;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> start = start_of(rank, length);
    x.insert(x.end(), start.begin(), start.end());
  }
  const auto mixed = [&](const std::vector<double>& values) {
    std::vector<double> result(values.size(), 0.0);
    for (int i = 0; i < ranks; ++i) {
      for (int j = 0; j < ranks; ++j) {
        const double weight = matrix[static_cast<std::size_t>(i) * ranks + j];
        for (std::size_t k = 0; k < length; ++k) result[i * length + k] += weight * values[j * length + k];
      }
    }
    return result;
  };
  for (int step = 0; step < steps; ++step) {
    std::vector<double> next = choice.order == "combine_then_adapt" ? mixed(x) : x;
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < length; ++k) {
        next[rank * length + k] -= double(rate) * gradient_at(x[rank * length + k], rank, k);
      }
    }
    x = choice.order == "combine_then_adapt" ? next : mixed(next);
  }
  return x;
}

// Making a window is collective, and slow where ranks share cores: each property is tested on the graphs that can break
// it.
class NeighbourAverager : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  Choice choice_{"neighbour", std::get<1>(GetParam()), std::get<0>(GetParam()), false, 2};
};

TEST_P(NeighbourAverager, FollowsItsRuleAsSimulatedInOneProcess) {
  constexpr std::size_t length = 203;
  const std::vector<float> x = trained(choice_, length, 12);
  const std::vector<double> expected = simulated(choice_, length, 12);
  double error = 0;
  for (std::size_t i = 0; i < length; ++i) error = larger_error(error, x[i] - expected[this_rank() * length + i]);
  EXPECT_LT(error, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Graphs, NeighbourAverager,
                         testing::Combine(testing::Values("ring", "torus2d", "exponential", "complete"),
                                          testing::Values("combine_then_adapt", "adapt_then_combine")),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                         });

TEST(Averager, NeighbourIsBitwiseTheSameInEveryRunAndGoesOnFromAnyStep) {
  constexpr std::size_t length = 1001;
  for (const char* order : {"combine_then_adapt", "adapt_then_combine"}) {
    for (const bool force_put : {false, true}) {
      const Choice choice{"neighbour", order, "exponential", force_put, 2};
      const std::vector<float> straight = trained(choice, length, 9);
      EXPECT_EQ(ranks_that_differ(straight, trained(choice, length, 9)), 0) << order << force_put;
      Values weights(start_of(this_rank(), length));
      {
        const auto averager = make(choice, length);
        train(*averager, weights, 0, 4, 1);
      }
      const auto averager = make(choice, length, 4);
      train(*averager, weights, 4, 9, 1);
      EXPECT_EQ(ranks_that_differ(straight, weights.get()), 0) << order << force_put;
    }
  }
}

TEST(Averager, AnUpdateInSlicesHasTheBitsOfItsPartsOneAfterTheOther) {
  constexpr std::size_t length = (std::size_t{1} << 17U) + 5;
  const ExecutionSpace exec;
  const Values gradient(start_of(this_rank() + 100, length));
  int slices = 0;
  const auto after = [&](const Choice& choice, bool in_slices) {
    Values weights(start_of(this_rank(), length));
    const auto averager = make(choice, length);
    const auto descend = [&](std::size_t begin, std::size_t count) {
      sgd<float>(exec, {rate, 0, 0, false}, slice(weights.device(), begin, count),
                 slice(gradient.device(), begin, count), {});
      ++slices;
    };
    for (std::int64_t step = 0; step < 4; ++step) {
      averager->before_gradient(exec, step, weights.device());
      if (in_slices) {
        averager->update(exec, step, weights.device(), gradient.device(), 1, std::ref(descend));
      } else {
        averager->before_update(exec, step, weights.device(), gradient.device(), 1);
        descend(0, length);
        averager->after_update(exec, step, weights.device());
      }
    }
    return weights.get();
  };
  for (const char* order : {"combine_then_adapt", "adapt_then_combine"}) {
    const std::vector<float> in_parts = after({"neighbour", order}, false);
    EXPECT_GT(ranks_that_differ(in_parts, start_of(this_rank(), length)), 0) << order;
    for (const std::string way : {"store", "put", "device"}) {
      if (way == "device" && !device_halos_work()) continue;
      slices = 0;
      const std::vector<float> in_slices = after(
          {"neighbour", order, "ring", way == "put", 2, way == "device" ? HaloMemory::device : HaloMemory::host}, true);
      if (runs_on_host && exec.concurrency() == 1) {
        EXPECT_EQ(slices, 4 * 3);
      }
      EXPECT_EQ(ranks_that_differ(in_slices, in_parts), 0) << order << way;
    }
  }
}

TEST(Averager, StoresAndPutsGiveTheSameBits) {
  for (const char* kind : {"ring", "complete"}) {
    for (const int slots : {2, 3}) {
      const std::vector<float> stored = trained({"neighbour", "combine_then_adapt", kind, false, slots}, 1001, 8);
      const std::vector<float> put = trained({"neighbour", "combine_then_adapt", kind, true, slots}, 1001, 8);
      EXPECT_EQ(ranks_that_differ(stored, put), 0) << kind << ", " << slots << " slots";
    }
  }
}

TEST(Averager, HalosInDeviceMemoryGiveTheSameBits) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  for (const char* order : {"combine_then_adapt", "adapt_then_combine"}) {
    for (const char* kind : {"ring", "complete"}) {  // on 8 ranks more neighbours than one pass of the mix reads
      const std::vector<float> stored = trained({"neighbour", order, kind}, 1001, 8);
      EXPECT_GT(ranks_that_differ(stored, start_of(this_rank(), 1001)), 0);
      for (const bool force_put : {false, true}) {
        const Choice choice{"neighbour", order, kind, force_put, 2, HaloMemory::device};
        EXPECT_EQ(ranks_that_differ(stored, trained(choice, 1001, 8)), 0) << order << ", " << kind << force_put;
      }
    }
  }
}

TEST(Averager, CompleteGraphAdaptThenCombineIsAllreduceOnPlainGradientDescent) {
  constexpr std::size_t length = 500;
  const std::vector<float> same_start = start_of(99, length);
  Values by_neighbours(same_start), by_allreduce(same_start);
  const auto neighbours = make({"neighbour", "adapt_then_combine", "complete"}, length);
  const auto allreduce = make({"allreduce"}, length);
  train(*neighbours, by_neighbours, 0, 20, 1.0 / all_ranks());
  train(*allreduce, by_allreduce, 0, 20, 1.0 / all_ranks());
  const std::vector<float> a = by_neighbours.get(), b = by_allreduce.get();
  double error = 0, moved = 0;
  for (std::size_t i = 0; i < length; ++i) {
    error = larger_error(error, a[i] - b[i]);
    moved = std::max(moved, static_cast<double>(std::abs(a[i] - same_start[i])));
  }
  EXPECT_LT(error, 2e-6);
  EXPECT_GT(moved, 0.1);
}

TEST(Averager, AllreduceWeighsGradientsByTheirShareOfTheGlobalBatch) {
  constexpr std::size_t length = 1234;
  const int ranks = all_ranks();
  const double all = ranks * (ranks + 1) / 2.0;
  Values weights(start_of(0, length)), gradient(start_of(this_rank(), length));
  const auto averager = make({"allreduce"}, length);
  averager->before_update(ExecutionSpace(), 0, weights.device(), gradient.device(), (this_rank() + 1) / all);
  const std::vector<float> g = gradient.get();
  std::vector<double> expected(length, 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> other = start_of(rank, length);
    for (std::size_t i = 0; i < length; ++i) expected[i] += (rank + 1) / all * static_cast<double>(other[i]);
  }
  for (std::size_t i = 0; i < length; ++i) ASSERT_NEAR(g[i], expected[i], 1e-6) << i;
  EXPECT_EQ(weights.get(), start_of(0, length));
  std::vector<float> of_rank_0 = g;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(length), MPI_FLOAT, 0, MPI_COMM_WORLD);
  EXPECT_EQ(ranks_that_differ(g, of_rank_0), 0) << "replicas would drift apart";
  const std::int64_t bytes = 2 * (ranks - 1) * static_cast<std::int64_t>(length * sizeof(float)) / ranks;
  EXPECT_EQ(averager->bytes_sent(), bytes);
  EXPECT_EQ(bytes_per_step({"allreduce"}, topology_of("ring"), this_rank(), length), bytes);
}

TEST(Averager, NoneLeavesWeightsAndGradientAlone) {
  const std::vector<float> start = start_of(this_rank(), 50);
  Values weights(start), gradient(start);
  const auto averager = make({"none"}, 50);
  averager->before_gradient(ExecutionSpace(), 0, weights.device());
  averager->before_update(ExecutionSpace(), 0, weights.device(), gradient.device(), 0.5);
  averager->after_update(ExecutionSpace(), 0, weights.device());
  EXPECT_EQ(weights.get(), start);
  EXPECT_EQ(gradient.get(), start);
  EXPECT_EQ(averager->bytes_sent(), 0);
  EXPECT_EQ(bytes_per_step({"none"}, topology_of("ring"), this_rank(), 50), 0);
}

TEST(Averager, NeighbourCountsWhatItSends) {
  for (const bool force_put : {false, true}) {
    const auto averager = make({"neighbour", "combine_then_adapt", "torus2d", force_put}, 100);
    const auto degree = static_cast<std::int64_t>(topology_of("torus2d").out_neighbours(this_rank()).size());
    Values weights(start_of(0, 100));
    train(*averager, weights, 0, 3, 1);
    EXPECT_EQ(bytes_per_step({"neighbour"}, topology_of("torus2d"), this_rank(), 100), degree * 400);
    EXPECT_EQ(averager->bytes_sent(), 3 * degree * 400);
    EXPECT_GE(averager->wait_seconds(), 0);
  }
}

TEST(Averager, RefusesUnknownNames) {
  EXPECT_THROW(make({"gossip"}, 10), Error);
  EXPECT_THROW(make({"neighbour", "sideways"}, 10), Error);
}

class Decay : public testing::TestWithParam<std::string> {};

TEST_P(Decay, WithoutGradientsTheReplicasAgreeAtTheSpectralRateAndKeepTheirMean) {
  const std::string kind = GetParam();
  constexpr std::size_t length = 2000;
  const double second = 1 - spectral_gap(topology_of(kind));
  const bool at_once = second < 1e-6;  // one step brings agreement: no rate to measure
  // From where the slowest mode dominates to where single precision begins to show.
  const int last = at_once ? 2 : static_cast<int>(std::ceil(std::log(1e-4) / std::log(second)));
  const int first = last / 2;

  Values weights(start_of(this_rank(), length));
  const auto averager = make({"neighbour", "combine_then_adapt", kind}, length);
  const Buffer<float> gradient("gradient", length);
  const ExecutionSpace exec;
  const Consensus start = consensus_of(weights.get());
  Consensus middle;
  for (int step = 0; step < last; ++step) {
    if (step == first) middle = consensus_of(weights.get());
    averager->before_gradient(exec, step, weights.device());
    averager->before_update(exec, step, weights.device(), gradient, 1.0 / all_ranks());
    averager->after_update(exec, step, weights.device());
  }
  const Consensus end = consensus_of(weights.get());
  EXPECT_NEAR(end.mean / length, start.mean / length, 2e-8 * last);
  if (at_once) {
    EXPECT_LT(end.error, 1e-6 * (start.error + 1));
  } else {
    EXPECT_NEAR(std::pow(end.error / middle.error, 1.0 / (last - first)), second, 0.05 * second);
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, Decay, testing::Values("ring", "torus2d", "exponential", "complete"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace halograd::averager_mpi_test
