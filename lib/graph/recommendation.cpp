#include "graph/recommendation.hpp"

#include <algorithm>

#include "graph/spectral_gap.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr double small_cost = 0.02;

std::vector<std::string> kinds(int ranks) {
  std::vector<std::string> all;
  for (const TopologyRow& row : topologies()) {
    if (ranks <= row.most_planned) all.emplace_back(row.name);
  }
  return all;
}

}  // namespace

std::vector<Candidate> candidates(const Cluster& cluster, double model_bytes, const std::vector<MeasuredBatch>& batches,
                                  int slots) {
  const int ranks = cluster.ranks, on_node = std::min(ranks, cluster.machine.ranks_per_node);
  const std::vector<int> nodes = nodes_of_consecutive(ranks, cluster.machine.ranks_per_node);
  std::vector<Candidate> all;
  // `models`: of all ranks of a node, beside what each needs to train alone.
  const auto add = [&](Candidate candidate, const MeasuredBatch& batch, int models) {
    candidate.batch = batch.batch;
    candidate.node_memory = on_node * batch.memory_bytes + models * model_bytes;
    candidate.fits = cluster.node_memory == 0 || candidate.node_memory <= cluster.node_memory;
    candidate.images_per_second = static_cast<double>(ranks) * batch.batch / candidate.step.step_seconds;
    all.push_back(candidate);
  };
  for (const std::string& kind : kinds(ranks)) {
    TopologyConfig config;
    config.kind = kind;
    const Topology topology = make_topology(config, ranks, nodes);
    const EdgeLoad load = edge_load(topology, nodes);
    const double gap = ranks == 1 ? 1 : spectral_gap(topology);
    const double most_every = gap / least_mixing;
    for (const MeasuredBatch& batch : batches) {
      StepWork work{batch.step_seconds, model_bytes};
      Candidate candidate;
      candidate.averager = "neighbour";
      candidate.topology = kind;
      candidate.gap = gap;
      for (work.every = 1;; work.every *= 2) {
        candidate.every = work.every;
        candidate.step = neighbour_step(cluster.machine, work, load);
        if (candidate.step.efficiency >= 1 - small_cost || 2 * work.every > most_every) break;
      }
      // slots for a rank's own weights, which all of its node read, and for each halo from elsewhere
      add(candidate, batch, slots * ((load.inside ? on_node : 0) + load.crossing));
    }
  }
  for (const MeasuredBatch& batch : batches) {
    const StepWork work{batch.step_seconds, model_bytes};
    Candidate ring, tree;
    ring.averager = "ring_allreduce";
    tree.averager = "tree_allreduce";
    ring.step = ring_allreduce_step(cluster.machine, work, ranks);
    tree.step = tree_allreduce_step(cluster.machine, work, ranks);
    add(ring, batch, on_node);
    add(tree, batch, on_node);
  }
  return all;
}

Candidate recommended(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> possible;
  for (const Candidate& candidate : candidates) {
    if (candidate.on_topology() && candidate.fits && candidate.mixing() >= least_mixing) {
      possible.push_back(candidate);
    }
  }
  HALOGRAD_REQUIRE(!possible.empty(), "plan: no batch and topology fit into a node's memory; the smallest need is ",
                   candidates.empty() ? 0
                                      : std::min_element(candidates.begin(), candidates.end(),
                                                         [](const Candidate& a, const Candidate& b) {
                                                           return a.node_memory < b.node_memory;
                                                         })
                                            ->node_memory,
                   " bytes");
  double best = 0;
  for (const Candidate& candidate : possible) best = std::max(best, candidate.images_per_second);
  const auto is_far = [best](const Candidate& each) { return each.images_per_second < near_best * best; };
  possible.erase(std::remove_if(possible.begin(), possible.end(), is_far), possible.end());
  return *std::min_element(possible.begin(), possible.end(), [](const Candidate& a, const Candidate& b) {
    if (a.batch != b.batch) return a.batch < b.batch;
    if (a.mixing() != b.mixing()) return a.mixing() > b.mixing();
    return a.step.bytes < b.step.bytes;
  });
}

}  // namespace halograd
