#include "run/recommendation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "averagers/averager_table.hpp"
#include "averagers/codec_table.hpp"
#include "averagers/exchange_model.hpp"
#include "graph/mixing.hpp"
#include "graph/topology_table.hpp"
#include "kernels/codec.hpp"
#include "kernels/error.hpp"
#include "run/averager_checks.hpp"

namespace halograd {
namespace {

/// A way to average that is planned.
struct Way {
  const char* averager;
  Fact<void (*)(AveragerConfig&)> settings;
  Fact<Price> price;
};

const std::vector<Way>& ways() {
  constexpr auto plain = [](AveragerConfig&) {};
  static const std::vector<Way> rows{
      {"allreduce", plain, Price::none},
      {"allreduce", [](AveragerConfig& averager) { averager.codec = "bf16"; }, Price::rounding},
      {"neighbour", plain, Price::mixing},
      {"neighbour", [](AveragerConfig& averager) { averager.codec = "bf16"; }, Price::loss},
      {"neighbour", [](AveragerConfig& averager) { averager.codec = "int8"; }, Price::loss},
      {"neighbour",
       [](AveragerConfig& averager) {
         averager.codec = "top_k";
         averager.kept_share = 0.1;
       },
       Price::sparse},
      {"neighbour",
       [](AveragerConfig& averager) {
         averager.codec = "top_k";
         averager.kept_share = 0.05;
       },
       Price::sparse},
      {"neighbour", [](AveragerConfig& averager) { averager.staleness = -1; }, Price::loss},
      {"push_sum", plain, Price::mixing},
      {"push_sum", [](AveragerConfig& averager) { averager.overlap = true; }, Price::loss},
      {"push_sum", [](AveragerConfig& averager) { averager.staleness = -1; }, Price::loss},
      {"hierarchical", plain, Price::mixing},
  };
  return rows;
}

/// A planned graph, and how much of the distance between replicas an exchange on it takes away.
struct PlannedGraph {
  TopologyConfig topology;
  double edges;   ///< in an exchange, in the mean over exchanges
  long crossing;  ///< edges between nodes, of a graph that stays
  double mixing;
  /// Whether one cannot be told from the other by anything that is planned: a torus of 2 x 2 is a ring.
  [[nodiscard]] bool is_like(const PlannedGraph& other) const {
    return edges == other.edges && crossing == other.crossing && std::abs(mixing - other.mixing) < 1e-9;
  }
};

/// The planned graphs on so many vertices; of those that are alike, the first.
std::vector<PlannedGraph> planned_graphs(int vertices, const std::vector<int>& nodes) {
  std::vector<PlannedGraph> planned;
  for (const TopologyRow& row : topologies()) {
    if (vertices > row.most_planned) continue;
    TopologyConfig config;
    config.kind = row.name;
    const Topology topology = make_topology(config, vertices, nodes);
    PlannedGraph graph{config, 0, crossing_edges(topology, nodes), mixing_rate(ExecutionSpace(), topology)};
    for (int vertex = 0; vertex < vertices; ++vertex) graph.edges += topology.mean_out(vertex);
    const auto is_like = [&](const PlannedGraph& other) { return graph.is_like(other); };
    if (std::none_of(planned.begin(), planned.end(), is_like)) planned.push_back(graph);
  }
  return planned;
}

/// The job with one vertex per replica in place of one per rank. Each rank of a group exchanges its own shard, so that
/// a node sends the shards of its ranks: `parameters` becomes their number of values, which these ranks move together.
PlannedJob of_replicas(PlannedJob job) {
  const int on_a_node = std::min(job.machine.ranks_per_node, job.group_ranks);
  job.parameters = job.parameters * static_cast<std::size_t>(on_a_node) / static_cast<std::size_t>(job.group_ranks);
  job.machine.transport /= on_a_node;
  job.machine.ranks_per_node = std::max(1, job.machine.ranks_per_node / job.group_ranks);
  job.ranks = job.replicas();
  return job;
}

class Planner {
 public:
  Planner(const PlannedJob& measured, const std::function<CodecSpeed(const AveragerConfig&)>& speed_of)
      : job_(of_replicas(measured)), speed_of_(speed_of) {
    const PlannedJob& job = job_;
    const auto smallest = std::min_element(job.batches.begin(), job.batches.end(),
                                           [](const auto& a, const auto& b) { return a.batch < b.batch; });
    const bool one_is_in_bound = static_cast<long>(smallest->batch) * job.ranks <= job.most_batch;
    most_per_rank_ = one_is_in_bound ? job.most_batch / job.ranks : smallest->batch;
  }

  std::vector<Candidate> all() {
    for (const Way& way : ways()) {
      add_way(way);
      if (job_.ranks == 1) break;  // one replica has nothing to average: the first way stands for all
    }
    return std::move(all_);
  }

 private:
  void add_way(const Way& way) {
    Candidate candidate;
    candidate.averager.name = way.averager;
    way.settings(candidate.averager);
    candidate.price = way.price;
    const AveragerRow& row = row_of(candidate.averager);
    candidate.free = row.pace(candidate.averager) == Pace::free;
    candidate.has_graph = row.graphs != Graphs::none;
    const CodecSpeed coding = is_coded(candidate.averager) ? speed_of_(candidate.averager) : CodecSpeed();
    if (!candidate.has_graph) return add_model(candidate, 1, coding);
    const int node_ranks = job_.machine.ranks_per_node;
    if (row.of_nodes && (node_ranks == 1 || job_.ranks <= node_ranks || job_.ranks % node_ranks != 0)) return;
    for (const PlannedGraph& graph : graphs(row.of_nodes)) {
      candidate.topology = graph.topology;
      RunConfig config;
      config.averager = candidate.averager;
      config.topology = graph.topology;
      if (averager_conflict(config)) continue;
      add_model(candidate, graph.mixing * consensus_step_of(candidate.averager), coding);
    }
  }

  const std::vector<PlannedGraph>& graphs(bool of_nodes) {
    const auto [found, first] = graphs_.try_emplace(of_nodes);
    if (first) {
      const int node_ranks = job_.machine.ranks_per_node;
      const int vertices = of_nodes ? job_.ranks / node_ranks : job_.ranks;
      found->second = planned_graphs(vertices, nodes_of_consecutive(vertices, of_nodes ? 1 : node_ranks));
    }
    return found->second;
  }

  /// Adds a candidate for each batch. `mixing`: share of the distance that one exchange takes away.
  void add_model(const Candidate& way, double mixing, const CodecSpeed& coding) {
    const ExchangeModel model(way.averager, way.topology, {job_.machine, job_.ranks, job_.parameters}, coding);
    for (const MeasuredBatch& batch : job_.batches) {
      Candidate candidate = way;
      candidate.neighbours = model.most_neighbours();
      candidate.batch = batch.batch;
      const StepWork work{batch.step_seconds, job_.uneven};
      std::vector<StepEstimate> steps;  // for H = 1, 2, 4, ...
      for (int every = 1; every == 1 || mixing / every >= least_mixing; every *= 2) {
        steps.push_back(model.step(work, every));
        if (!row_of(way.averager).local_steps) break;
      }
      const auto enough = std::find_if(steps.begin(), steps.end(), [&](const StepEstimate& step) {
        return as_fast * step.step_seconds <= steps.back().step_seconds;
      });
      candidate.step = *enough;
      candidate.averager.every = 1 << (enough - steps.begin());
      if (candidate.step.period > 1) candidate.price = Price::skipping;
      candidate.mixing = mixing / candidate.step.period;
      candidate.node_memory =
          std::min(job_.ranks, job_.machine.ranks_per_node) * batch.memory_bytes + model.node_memory();
      candidate.images_per_second = static_cast<double>(job_.ranks) * batch.batch / candidate.step.step_seconds;
      candidate.refusal = refusal_of(candidate);
      all_.push_back(candidate);
    }
  }

  [[nodiscard]] const char* refusal_of(const Candidate& candidate) const {
    if (job_.node_memory > 0 && candidate.node_memory > job_.node_memory) return "does not fit";
    if (candidate.mixing < least_mixing) return "mixes too slowly";
    if (job_.most_batch > 0 && candidate.batch > most_per_rank_) return "batch above the bound";
    return nullptr;
  }

  const PlannedJob job_;
  const std::function<CodecSpeed(const AveragerConfig&)>& speed_of_;
  int most_per_rank_;  ///< images of a batch per rank; the smallest batch where all are above the bound
  std::map<bool, std::vector<PlannedGraph>> graphs_;  ///< graphs on ranks (false) and on nodes (true)
  std::vector<Candidate> all_;
};

}  // namespace

std::vector<Candidate> candidates(const PlannedJob& job,
                                  const std::function<CodecSpeed(const AveragerConfig&)>& speed_of) {
  HALOGRAD_REQUIRE(!job.batches.empty(), "plan: no batch was measured");
  return Planner(job, speed_of).all();
}

const Candidate& recommended(const std::vector<Candidate>& candidates, const Unevenness& uneven) {
  std::map<int, double> fastest;  // images per second, for each batch
  double least_memory = 0, best = 0;
  for (const Candidate& each : candidates) {
    least_memory = least_memory == 0 ? each.node_memory : std::min(least_memory, each.node_memory);
    if (each.refusal != nullptr) continue;
    fastest[each.batch] = std::max(fastest[each.batch], each.images_per_second);
    best = std::max(best, each.images_per_second);
  }
  HALOGRAD_REQUIRE(!fastest.empty(), "plan: no batch and averager fit into a node's memory; the smallest need is ",
                   least_memory, " bytes");
  const auto& [batch, of_batch] =
      *std::find_if(fastest.begin(), fastest.end(), [&](const auto& each) { return each.second >= near_best * best; });
  const bool uneven_ranks = uneven.spread >= large_spread || uneven.slowest >= 1 + large_spread;
  const auto order = [&](const Candidate& each) {
    return std::make_tuple(uneven_ranks && !each.free, each.price, each.free, each.neighbours, each.step.bytes,
                           -each.mixing);
  };
  const Candidate* pick = nullptr;
  for (const Candidate& each : candidates) {
    if (each.refusal != nullptr || each.batch != batch || each.images_per_second < as_fast * of_batch) continue;
    if (pick == nullptr || order(each) < order(*pick)) pick = &each;
  }
  return *pick;
}

std::vector<KeyValue> keys_of(const Candidate& candidate, int replicas) {
  RunConfig config, other;
  config.training.batch = candidate.batch * replicas;
  config.averager = candidate.averager;
  config.topology = candidate.topology;
  other.training.batch = 0;
  other.averager.name.clear();
  other.averager.every = 0;
  if (candidate.has_graph) other.topology.kind.clear();
  return different_keys(config, other);
}

}  // namespace halograd
