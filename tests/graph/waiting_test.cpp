#include "graph/waiting.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <queue>
#include <random>
#include <tuple>

#include "graph/topology.hpp"

namespace halograd::waiting_test {
namespace {

Topology topology_of(const std::string& kind, int ranks) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, ranks);
}

std::vector<Graph> graphs_of(const std::string& kind, int ranks) {
  const Topology topology = topology_of(kind, ranks);
  if (topology.dynamic() == nullptr) return {topology.graph()};
  std::vector<Graph> graphs;
  for (std::int64_t step = 0; step < topology.dynamic()->period(); ++step) {
    graphs.push_back(topology.dynamic()->at(step)->in);
  }
  return graphs;
}

double modelled(const std::vector<Graph>& graphs, double travel, const LockstepExchange& times,
                const Unevenness& uneven) {
  std::vector<TimedEdges> edges;
  for (const Graph& graph : graphs) edges.push_back({graph, travel});
  return lockstep_seconds(edges, times, uneven);
}

/// Ranks and messages as events in the order of their times: what ranks do, without the recursion of the model. Weights
/// leave at the begin of a step (hidden = 1) or at its end (hidden = 0).
class Events {
 public:
  Events(std::vector<Graph> graphs, double travel, const LockstepExchange& times, const Unevenness& uneven)
      : graphs_(std::move(graphs)), travel_(travel), times_(times), uneven_(uneven), ranks_(graphs_.front().size()) {}

  double seconds_per_step(long steps) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin_step(rank, 0);
    double half = 0, end = 0;
    while (!events_.empty()) {
      const auto [time, rank, sender, step] = events_.top();
      events_.pop();
      Rank& state = ranks_[rank];
      if (sender == computed) {
        state.computed = true;
        if (exchanges(step) && times_.hidden == 0) send(rank, step, time);
      } else {
        const auto ahead = static_cast<std::size_t>(step - state.step);
        if (state.arrived.size() <= ahead) state.arrived.resize(ahead + 1, 0);
        ++state.arrived[ahead];
      }
      if (!is_done(rank)) continue;
      const long done = ++state.step;
      if (!state.arrived.empty()) state.arrived.pop_front();
      if (done == steps / 2) half = std::max(half, time);
      if (done == steps) end = std::max(end, time);
      if (done < steps) begin_step(rank, time + (exchanges(done - 1) ? times_.after : 0));
    }
    return (end - half) / static_cast<double>(steps - steps / 2);
  }

 private:
  static constexpr int computed = -1;
  struct Rank {
    long step = 0;
    bool computed = false;
    std::deque<int> arrived;  ///< messages of this step and of those after it
  };
  using Event = std::tuple<double, std::size_t, int, long>;  ///< time, rank, sender or computed, step

  [[nodiscard]] bool exchanges(long step) const { return step % times_.every == 0; }
  [[nodiscard]] const Graph& graph(long step) const {
    return graphs_[static_cast<std::size_t>(step / times_.every) % graphs_.size()];
  }
  void begin_step(std::size_t rank, double time) {
    const double factor = (rank == 0 ? uneven_.slowest : 1) * std::max(0.0, 1 + uneven_.spread * normal_(random_));
    const long step = ranks_[rank].step;
    ranks_[rank].computed = false;
    events_.push({time + factor * times_.compute, rank, computed, step});
    if (exchanges(step) && times_.hidden == 1) send(rank, step, time);
  }
  void send(std::size_t rank, long step, double time) {
    const Graph& in = graph(step);
    for (std::size_t to = 0; to < in.size(); ++to) {
      for (const int from : in[to]) {
        if (from == static_cast<int>(rank)) events_.push({time + travel_, to, from, step});
      }
    }
    events_.push({time + travel_, rank, static_cast<int>(rank), step});  // its own put has ended
  }
  [[nodiscard]] bool is_done(std::size_t rank) const {
    const Rank& state = ranks_[rank];
    if (!state.computed || !exchanges(state.step)) return state.computed;
    const std::size_t expected = graph(state.step)[rank].size() + 1;
    return !state.arrived.empty() && state.arrived.front() == static_cast<int>(expected);
  }

  std::vector<Graph> graphs_;
  double travel_;
  LockstepExchange times_;
  Unevenness uneven_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::mt19937 random_{1};
  std::normal_distribution<double> normal_;
};

TEST(Waiting, TheExpectedLargestOfNormalNumbers) {
  // Harter, Biometrika 48 (1961), table 1
  EXPECT_NEAR(slowest_of(2, {0.1, 1}), 1 + 0.1 * 0.56419, 1e-5);
  EXPECT_NEAR(slowest_of(4, {0.1, 1}), 1 + 0.1 * 1.02938, 1e-5);
  EXPECT_NEAR(slowest_of(8, {0.1, 1}), 1 + 0.1 * 1.42360, 1e-5);
  EXPECT_NEAR(slowest_of(100, {0.1, 1}), 1 + 0.1 * 2.50759, 1e-5);
  EXPECT_EQ(slowest_of(1, {0.1, 1}), 1);
  EXPECT_EQ(slowest_of(8, {0, 3}), 3);
  EXPECT_NEAR(slowest_of(8, {0.01, 3}), 3, 1e-6);  // never another rank
}

TEST(Waiting, WithoutSpreadAllGoAtThePaceOfTheSlowest) {
  const std::vector<Graph> ring = graphs_of("ring", 8);
  EXPECT_DOUBLE_EQ(modelled(ring, 0.3, {1, 1, 0.1, 1}, {}), 1.1);      // hidden
  EXPECT_DOUBLE_EQ(modelled(ring, 0.3, {1, 0, 0.1, 1}, {}), 1.4);      // not hidden
  EXPECT_DOUBLE_EQ(modelled(ring, 1.5, {1, 1, 0.1, 4}, {}), 1.15);     // half a step in each fourth
  EXPECT_DOUBLE_EQ(modelled(ring, 1.5, {1, 1, 0.1, 1}, {0, 2}), 2.1);  // hides behind the slow rank's computing
}

TEST(Waiting, ASlowRankIsWaitedForInTheLongRun) {
  EXPECT_NEAR(modelled(graphs_of("ring", 8), 0.1, {1, 1, 0, 1}, {0.02, 2}), 2, 0.01);
  EXPECT_NEAR(modelled(graphs_of("exponential", 8), 0, {1, 0, 0, 1}, {0.02, 2}), 2, 0.01);
}

TEST(Waiting, AllForAllIsTheExpectedLargest) {
  for (const int ranks : {2, 8, 32}) {
    EXPECT_NEAR(modelled(graphs_of("complete", ranks), 0, {1, 0, 0, 1}, {0.1, 1}), slowest_of(ranks, {0.1, 1}), 0.003)
        << ranks;
  }
}

/// A path back through the ranks that waited for each other chooses among d + 1 ranks in each step. The best of those
/// is a choice that there always is; with Gaussian times no path gains more than sqrt(2 ln(d + 1)) per step (the first
/// moment of a branching random walk), nor more than the slowest of all ranks.
TEST(Waiting, LiesBetweenTheSlowestOfTheNeighboursAndOfAll) {
  constexpr double spread = 0.1;
  for (const auto& [kind, ranks, degree] : {std::tuple("ring", 16, 2), {"torus2d", 36, 4}, {"hypercube", 32, 5}}) {
    const double lost = modelled(graphs_of(kind, ranks), 0, {1, 0, 0, 1}, {spread, 1}) - 1;
    EXPECT_GT(lost, slowest_of(degree + 1, {spread, 1}) - 1 - 0.002) << kind;
    EXPECT_LT(lost, std::min(spread * std::sqrt(2 * std::log(degree + 1)), slowest_of(ranks, {spread, 1}) - 1) + 0.002)
        << kind;
  }
}

/// Two ranks whose exchange has `slack` to spare drift apart until one waits: a random walk between two reflecting
/// ends. Long walks lose spread^2 / (2 slack) per step; with the overshoot at the ends as without slack, where the
/// larger of two is waited for, spread / (sqrt(pi) + 2 slack / spread).
TEST(Waiting, SlackTakesUpMostOfTheSpread) {
  constexpr double spread = 0.2, slack = 0.4;
  const double lost = modelled(graphs_of("ring", 2), 1 - slack, {1, 1, 0, 1}, {spread, 1}) - 1;
  EXPECT_NEAR(lost, spread / (std::sqrt(std::acos(-1.0)) + 2 * slack / spread), 0.006);
}

TEST(Waiting, EventsTakeAsLongAsTheModelSays) {
  constexpr long steps = 5000;
  const Unevenness uneven{0.2, 1};
  for (const char* kind : {"ring", "exponential", "one_peer_exponential", "star"}) {
    for (const double hidden : {0.0, 1.0}) {
      for (const int every : {1, 3}) {
        const LockstepExchange times{1, hidden, 0.05, every};
        const double travel = 0.8;
        const double found = Events(graphs_of(kind, 8), travel, times, uneven).seconds_per_step(steps);
        EXPECT_NEAR(modelled(graphs_of(kind, 8), travel, times, uneven), found, 0.02)
            << kind << " hidden " << hidden << " every " << every;
      }
    }
  }
}

}  // namespace
}  // namespace halograd::waiting_test
