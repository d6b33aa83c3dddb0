// Push-sum, GossipGraD and AD-PSGD, held against the same in one process and against what they keep.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "averagers/averager.hpp"
#include "kernels/error.hpp"
#include "mpi/wait.hpp"
#include "tests/averagers/replicas.hpp"
#include "tests/kernels/differences.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/pair_window.hpp"

namespace halograd::gossip_mpi_test {
namespace {

using Rows = std::vector<std::vector<double>>;  // of all ranks

struct Choice {
  std::string name;
  std::string topology;
  bool force_put = false;
  bool overlap = false;
  int every = 1;
  int global_every = 0;
};

/// Graphs that stay, with weights by out-degree, or that change.
Topology topology_of(const Choice& choice) {
  TopologyConfig config;
  config.kind = choice.topology;
  if (choice.name == "push_sum" && !DynamicTopology::has_kind(config.kind)) config.weights = "out_degree";
  return make_topology(config, all_ranks());
}

std::unique_ptr<Averager> make(const Choice& choice, std::size_t length, std::int64_t first_step = 0) {
  AveragerConfig config;
  config.name = choice.name;
  config.overlap = choice.overlap;
  config.every = choice.every;
  config.global_every = choice.global_every;
  return make_averager(
      {config, CommConfig{.force_put = choice.force_put}, topology_of(choice), MPI_COMM_WORLD, length, first_step});
}

Rows starts(std::size_t length) {
  Rows rows;
  for (int rank = 0; rank < all_ranks(); ++rank) {
    const std::vector<float> start = start_of(rank, length);
    rows.emplace_back(start.begin(), start.end());
  }
  return rows;
}

double sum_over_all(double value) {
  return Communicator(MPI_COMM_WORLD).sum(value);
}

double largest_error(const std::vector<float>& x, const std::vector<double>& expected) {
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) error = larger_error(error, x[i] - expected[i]);
  return error;
}

/// Push-sum in its own terms (Assran et al., algorithm 1; with overlap, what arrives was sent a step before): x and w
/// of every rank, z = x / w. Returns z; the weights w through `weights`.
Rows pushed(const Choice& choice, std::size_t length, int steps, std::vector<double>& weights) {
  const auto ranks = static_cast<std::size_t>(all_ranks());
  const Topology topology = topology_of(choice);
  Rows x = starts(length), z = x, sent(ranks, std::vector<double>(length, 0.0));
  std::vector<double> w(ranks, 1.0), sent_w(ranks, 0.0);
  for (int update = 0; update < steps; ++update) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < length; ++k) {
        x[rank][k] -= double(rate) * gradient_at(z[rank][k], static_cast<int>(rank), k);
        z[rank][k] = x[rank][k] / w[rank];
      }
    }
    if (update % choice.every != choice.every - 1) continue;
    const int step = update / choice.every;
    // With overlap the first step finds nothing, and the graph of a step is the one before's.
    const Rows half = x;
    const std::vector<double> half_w = w;
    const auto own = topology.dynamic()->at(choice.overlap ? step + 1 : step);
    const auto arriving = topology.dynamic()->at(step);
    const Rows& from_x = choice.overlap ? sent : half;
    const std::vector<double>& from_w = choice.overlap ? sent_w : half_w;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double share = own->weight(static_cast<int>(rank));
      w[rank] = share * half_w[rank];
      for (std::size_t k = 0; k < length; ++k) x[rank][k] = share * half[rank][k];
      for (const int from : arriving->in[rank]) {
        const auto j = static_cast<std::size_t>(from);
        w[rank] += arriving->weight(from) * from_w[j];
        for (std::size_t k = 0; k < length; ++k) x[rank][k] += arriving->weight(from) * from_x[j][k];
      }
      for (std::size_t k = 0; k < length; ++k) z[rank][k] = x[rank][k] / w[rank];
    }
    sent = half;
    sent_w = half_w;
  }
  weights = w;
  return z;
}

std::span<double> weights_of(Averager& averager) {
  return std::get<std::span<double>>(averager.state().front().values);
}

class PushSum : public testing::TestWithParam<std::tuple<std::string, bool, bool>> {
 protected:
  Choice choice_{"push_sum", std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
};

TEST_P(PushSum, FollowsItsRuleAsSimulatedInOneProcess) {
  constexpr std::size_t length = 203;
  Values weights(start_of(this_rank(), length));
  const auto averager = make(choice_, length);
  train(*averager, weights, 0, 12, 1);
  std::vector<double> w;
  const Rows expected = pushed(choice_, length, 12, w);
  EXPECT_LT(largest_error(weights.get(), expected[static_cast<std::size_t>(this_rank())]), 5e-6);
  EXPECT_NEAR(weights_of(*averager)[0], w[static_cast<std::size_t>(this_rank())], 1e-12);
}

TEST_P(PushSum, MakesLocalStepsBetweenExchanges) {
  constexpr std::size_t length = 203;
  choice_.every = 3;
  Values weights(start_of(this_rank(), length));
  const auto averager = make(choice_, length);
  train(*averager, weights, 0, 14, 1);
  std::vector<double> w;
  const Rows expected = pushed(choice_, length, 14, w);
  EXPECT_LT(largest_error(weights.get(), expected[static_cast<std::size_t>(this_rank())]), 5e-6);
  EXPECT_NEAR(weights_of(*averager)[0], w[static_cast<std::size_t>(this_rank())], 1e-12);
}

TEST_P(PushSum, KeepsTheSumsOfXAndWAndComesToTheMean) {
  constexpr std::size_t length = 500;
  const Topology topology = topology_of(choice_);
  Values z(start_of(this_rank(), length));
  const auto averager = make(choice_, length);
  const ExecutionSpace exec;
  const Buffer<float> gradient("gradient", length);
  const Consensus start = consensus_of(z.get());
  constexpr int steps = 60;
  for (int step = 0; step < steps; ++step) {
    averager->before_gradient(exec, step, z.device());
    averager->before_update(exec, step, z.device(), gradient, 1);
    averager->after_update(exec, step, z.device());
    // What a rank holds, and what it has sent and nobody has added up yet.
    const std::span<double> w = weights_of(*averager);
    const double under_way = choice_.overlap ? w[1] * (1 - topology.dynamic()->at(step + 1)->weight(this_rank())) : 0;
    ASSERT_NEAR(sum_over_all(w[0] + under_way), all_ranks(), 1e-9) << step;
    if (step % 20 != 7) continue;
    const std::vector<float> now = z.get();
    double sum = w[0] * std::accumulate(now.begin(), now.end(), 0.0);
    if (choice_.overlap) {
      const auto sent = std::get<std::span<float>>(averager->state()[1].values);
      sum +=
          (1 - topology.dynamic()->at(step + 1)->weight(this_rank())) * std::accumulate(sent.begin(), sent.end(), 0.0);
    }
    EXPECT_NEAR(sum_over_all(sum) / (all_ranks() * length), start.mean / length, 1e-6) << step;
  }
  const Consensus end = consensus_of(z.get());
  EXPECT_LT(end.error, 1e-3 * start.error + 1e-6);
  EXPECT_NEAR(end.mean / length, start.mean / length, 1e-4);  // of z: what they come to
}

TEST_P(PushSum, GoesOnFromAnyStepWithTheSameBits) {
  constexpr std::size_t length = 301;
  Values straight(start_of(this_rank(), length)), weights(start_of(this_rank(), length));
  {
    const auto averager = make(choice_, length);
    train(*averager, straight, 0, 9, 1);
  }
  std::vector<double> numbers;
  std::vector<float> sent;
  {
    const auto averager = make(choice_, length);
    train(*averager, weights, 0, 4, 1);
    const std::span<double> w = weights_of(*averager);
    numbers.assign(w.begin(), w.end());
    if (choice_.overlap) {
      const auto values = std::get<std::span<float>>(averager->state()[1].values);
      sent.assign(values.begin(), values.end());
    }
  }
  const auto averager = make(choice_, length, 4);
  std::copy(numbers.begin(), numbers.end(), weights_of(*averager).begin());
  if (choice_.overlap) {
    std::copy(sent.begin(), sent.end(), std::get<std::span<float>>(averager->state()[1].values).begin());
  }
  averager->restored();
  train(*averager, weights, 4, 9, 1);
  EXPECT_EQ(ranks_that_differ(straight.get(), weights.get()), 0);
}

INSTANTIATE_TEST_SUITE_P(Graphs, PushSum,
                         testing::Combine(testing::Values("star", "exponential", "one_peer_exponential"),
                                          testing::Bool(), testing::Bool()),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + (std::get<1>(instance.param) ? "_put" : "_store") +
                                  (std::get<2>(instance.param) ? "_overlap" : "");
                         });

TEST(GossipGrad, FollowsItsRuleAsSimulatedInOneProcess) {
  constexpr std::size_t length = 203;
  const auto ranks = static_cast<std::size_t>(all_ranks());
  for (const char* kind : {"rotating_exponential", "random_matching"}) {
    for (const bool force_put : {false, true}) {
      const Choice choice{"gossip_grad", kind, force_put, false, 1, force_put ? 0 : 5};
      const auto share_of = [&](std::size_t rank) { return static_cast<double>(rank + 1) / 100; };
      Values weights(start_of(this_rank(), length));
      const auto averager = make(choice, length);
      train(*averager, weights, 0, 12, share_of(static_cast<std::size_t>(this_rank())));
      Rows x = starts(length);
      const Topology topology = topology_of(choice);
      for (int step = 0; step < 12; ++step) {
        const auto graph = topology.dynamic()->at(step);
        const Rows before = x;
        for (std::size_t i = 0; i < ranks; ++i) {
          const std::size_t j = graph->in[i].empty() ? i : static_cast<std::size_t>(graph->in[i][0]);
          for (std::size_t k = 0; k < length; ++k) {
            const double mine = gradient_at(before[i][k], static_cast<int>(i), k);
            const double other = gradient_at(before[j][k], static_cast<int>(j), k);
            x[i][k] -= double(rate) * (share_of(i) * mine + share_of(j) * other) / (share_of(i) + share_of(j));
          }
        }
        if (choice.global_every == 0 || (step + 1) % choice.global_every != 0) continue;
        for (std::size_t k = 0; k < length; ++k) {
          double mean = 0;
          for (const std::vector<double>& row : x) mean += row[k] / static_cast<double>(ranks);
          for (std::vector<double>& row : x) row[k] = mean;
        }
      }
      EXPECT_LT(largest_error(weights.get(), x[static_cast<std::size_t>(this_rank())]), 2e-6) << kind << force_put;
    }
  }
}

TEST(GossipGrad, AGradientThatWasLeftOutDoesNotCount) {
  const Choice choice{"gossip_grad", "one_peer_exponential"};
  const int from = (this_rank() + all_ranks() - 1) % all_ranks();
  const auto averager = make(choice, 3);
  const bool left_out = this_rank() == 0;
  Values weights({0, 0, 0}), gradient(std::vector<float>(3, left_out ? 0.0F : static_cast<float>(this_rank())));
  averager->before_update(ExecutionSpace(), 0, weights.device(), gradient.device(), left_out ? 0 : 0.1);
  double expected = this_rank();
  if (from != this_rank() && from != 0) expected = left_out ? from : (this_rank() + from) / 2.0;
  EXPECT_NEAR(gradient.get()[1], expected, 1e-6);
}

class AdPsgd : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  Choice choice_{"ad_psgd", std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(AdPsgd, KeepsTheMeanAndComesToItWhateverThePaceOfTheRanks) {
  constexpr std::size_t length = 400;
  Values x(start_of(this_rank(), length));
  const auto averager = make(choice_, length);
  const ExecutionSpace exec;
  const Buffer<float> gradient("gradient", length);
  const Consensus start = consensus_of(x.get());
  const auto run = [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      averager->before_gradient(exec, step, x.device());
      std::this_thread::sleep_for(std::chrono::microseconds(this_rank() == 0 ? 600 : 200));
      averager->before_update(exec, step, x.device(), gradient, 1);
      averager->after_update(exec, step, x.device());
    }
    const double waited = averager->wait_seconds();
    const PolitePause time;
    averager->settle(exec, x.device());
    EXPECT_LE(averager->wait_seconds() - waited, time.seconds());  // no wait counts twice
  };
  run(3);
  const Consensus early = consensus_of(x.get());
  EXPECT_NEAR(early.mean / length, start.mean / length, 1e-7 * all_ranks());
  EXPECT_LE(early.error, start.error * (1 + 1e-6));  // an average of two is never farther from the mean
  if (all_ranks() > 1) {
    EXPECT_LT(early.error, start.error);
  }
  for (int i = 0; i < 10; ++i) run(10 + 5 * this_rank());  // ranks come to the end at different times
  const Consensus end = consensus_of(x.get());
  EXPECT_NEAR(end.mean / length, start.mean / length, 1e-6);
  EXPECT_LT(end.error, 1e-3 * start.error + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Graphs, AdPsgd, testing::Combine(testing::Values("complete", "ring", "star"), testing::Bool()),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + (std::get<1>(instance.param) ? "_put" : "_store");
                         });

TEST(AdPsgdAverager, TwoRanksHaveTheirMeanAfterOneExchangeAndKeepUpdatesMadeMeanwhile) {
  if (all_ranks() < 2) GTEST_SKIP() << "needs two ranks";
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, this_rank() / 2, this_rank(), &pair);
  int ranks = 0, rank = 0;
  MPI_Comm_size(pair, &ranks);
  MPI_Comm_rank(pair, &rank);
  if (ranks == 2) {
    AveragerConfig config;
    config.name = "ad_psgd";
    const auto averager = make_averager({config, {}, make_topology({}, 2), pair, 1, 0});
    const ExecutionSpace exec;
    Values x({rank == 0 ? 1.0F : 4.0F});
    averager->before_gradient(exec, 0, x.device());
    const bool asks = two_sides({{1}, {0}}).asks[static_cast<std::size_t>(rank)];
    if (asks) x.set({x.get()[0] + 16});  // an update while the exchange is under way
    averager->settle(exec, x.device());
    EXPECT_EQ(x.get()[0], asks ? 18.5F : 2.5F);
  }
  MPI_Comm_free(&pair);
}

TEST(Gossip, CountsWhatItSendsAndRefusesOtherGraphs) {
  const int ranks = all_ranks();
  for (const char* kind : {"star", "exponential", "one_peer_exponential"}) {
    const Choice choice{"push_sum", kind};
    const auto averager = make(choice, 100);
    Values weights(start_of(0, 100));
    train(*averager, weights, 0, 6, 1);
    const Topology topology = topology_of(choice);
    EXPECT_EQ(averager->bytes_sent(), 6 * bytes_per_step({"push_sum"}, topology, this_rank(), 100)) << kind;
  }
  EXPECT_EQ(bytes_per_step({"ad_psgd"}, make_topology({}, ranks), this_rank(), 100), ranks > 1 ? 400 : 0);
  EXPECT_THROW(make({"gossip_grad", "ring"}, 4), Error);
  EXPECT_THROW(make({"ad_psgd", "random_matching"}, 4), Error);
  if (ranks >= 4) {
    EXPECT_THROW(make({"ad_psgd", "exponential"}, 4), Error);
  }
}

}  // namespace
}  // namespace halograd::gossip_mpi_test
