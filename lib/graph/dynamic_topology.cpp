#include "graph/dynamic_topology.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "graph/topology_table.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// The graph in which rank i takes from sources[i], or from nobody where that is i.
std::shared_ptr<const StepGraph> one_peer(const std::vector<int>& sources) {
  Graph in(sources.size());
  for (std::size_t rank = 0; rank < sources.size(); ++rank) {
    if (sources[rank] != static_cast<int>(rank)) in[rank].push_back(sources[rank]);
  }
  return std::make_shared<const StepGraph>(step_graph(std::move(in)));
}

void require_all_reached(const std::string& kind, const Graph& next, const char* way) {
  std::vector<bool> seen(next.size(), false);
  std::vector<int> queue;
  const auto reach = [&](int rank) {
    if (seen[static_cast<std::size_t>(rank)]) return;
    seen[static_cast<std::size_t>(rank)] = true;
    queue.push_back(rank);
  };
  reach(0);
  std::size_t head = 0;
  while (head < queue.size()) {
    for (const int rank : next[static_cast<std::size_t>(queue[head++])]) reach(rank);
  }
  const auto missed = std::find(seen.begin(), seen.end(), false) - seen.begin();
  HALOGRAD_REQUIRE(queue.size() == next.size(), "topology ", kind, ": not connected: no path leads ", way,
                   " rank 0 to rank ", missed);
}

}  // namespace

StepGraph step_graph(Graph in_neighbours) {
  Graph out(in_neighbours.size());
  for (std::size_t rank = 0; rank < in_neighbours.size(); ++rank) {
    for (const int from : in_neighbours[rank]) out[static_cast<std::size_t>(from)].push_back(static_cast<int>(rank));
  }
  return {std::move(in_neighbours), std::move(out)};
}

const std::vector<std::string>& DynamicTopology::kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const TopologyRow& row : topologies()) {
      if (row.changes()) found.emplace_back(row.name);
    }
    return found;
  }();
  return names;
}

bool DynamicTopology::has_kind(const std::string& kind) {
  return std::find(kinds().begin(), kinds().end(), kind) != kinds().end();
}

DynamicTopology::DynamicTopology(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank)
    : kind_(config.kind), ranks_(ranks), seed_(config.seed) {
  const TopologyRow& row = row_of(config);
  HALOGRAD_REQUIRE(row.changes(), "topology.kind is \"", kind_, "\", which does not change; expected one of ",
                   listed(kinds()));
  HALOGRAD_REQUIRE(ranks_ >= 1, "topology ", kind_, ": ", ranks_, " ranks; expected at least 1");
  if (*row.period == nullptr) return;
  const std::vector<int> rank_at = ranks_by_node(ranks_, node_of_rank);
  for (std::int64_t step = 0; step < row.period(ranks_); ++step) {
    cycle_.push_back(one_peer(row.sources(StepRequest{rank_at, seed_, step})));
  }
}

DynamicTopology::DynamicTopology(std::string kind, Graph in_neighbours)
    : kind_(std::move(kind)), ranks_(static_cast<int>(in_neighbours.size())), most_in_(0) {
  HALOGRAD_REQUIRE(ranks_ >= 1, "topology ", kind_, ": no ranks");
  StepGraph graph = step_graph(std::move(in_neighbours));
  for (const std::vector<int>& in : graph.in) most_in_ = std::max(most_in_, static_cast<int>(in.size()));
  require_all_reached(kind_, graph.out, "from");
  require_all_reached(kind_, graph.in, "backwards from");
  cycle_.push_back(std::make_shared<const StepGraph>(std::move(graph)));
}

double DynamicTopology::mean_out(int rank) const {
  if (cycle_.empty()) {  // one peer
    if (ranks_ == 1) return 0;
    return row_of(topologies(), kind_, "topology.kind").pauses_one ? 1 - ranks_ % 2 / static_cast<double>(ranks_) : 1;
  }
  double sum = 0;
  for (const auto& graph : cycle_) sum += static_cast<double>(graph->out[static_cast<std::size_t>(rank)].size());
  return sum / static_cast<double>(cycle_.size());
}

std::shared_ptr<const StepGraph> DynamicTopology::at(std::int64_t step) const {
  HALOGRAD_REQUIRE(step >= 0, "topology ", kind_, ": step ", step, "; expected 0 or more");
  if (!cycle_.empty()) return cycle_[static_cast<std::size_t>(step % period())];
  const std::vector<int> rank_at = ranks_by_node(ranks_, {});
  return one_peer(row_of(topologies(), kind_, "topology.kind").sources(StepRequest{rank_at, seed_, step}));
}

long steps_to_consensus(const DynamicTopology& topology, double tolerance, long most) {
  constexpr std::size_t columns = 8;
  const auto ranks = static_cast<std::size_t>(topology.ranks());
  std::vector<double> x(ranks * columns), next(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random_uniform(1, i) - 0.5;
  for (std::size_t k = 0; k < columns; ++k) {
    double mean = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) mean += x[rank * columns + k] / static_cast<double>(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) x[rank * columns + k] -= mean;
  }
  const auto distance = [&] { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); };
  const double start = distance();
  for (long step = 0; step < most; ++step) {
    if (distance() <= tolerance * start) return step;
    const auto graph = topology.at(step);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < columns; ++k) {
        double sum = graph->weight(static_cast<int>(rank)) * x[rank * columns + k];
        for (const int from : graph->in[rank]) {
          sum += graph->weight(from) * x[static_cast<std::size_t>(from) * columns + k];
        }
        next[rank * columns + k] = sum;
      }
    }
    std::swap(x, next);
  }
  return most;
}

}  // namespace halograd
