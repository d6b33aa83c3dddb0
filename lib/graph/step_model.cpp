#include "graph/step_model.hpp"

#include <algorithm>
#include <cmath>

namespace halograd {
namespace {

constexpr double copy_traffic = 2;    // bytes of memory traffic a copied byte: read (or its place) and written
constexpr double reduce_traffic = 3;  // a byte that is added to another: both read, the sum written

/// `exchange`: of which what the hidden share of the computing does not cover is waited for, and at least `last`, what
/// begins only after the computing. `memory`: on the critical path always.
StepEstimate estimate(const StepWork& work, double bytes, double exchange, double memory, double hidden,
                      double last = 0) {
  StepEstimate step;
  const double waited = std::max(last, exchange - hidden * work.compute_seconds);
  step.bytes = bytes / work.every;
  step.exchange_seconds = exchange;
  step.step_seconds = work.compute_seconds + (memory + waited) / work.every;
  step.efficiency = step.step_seconds > 0 ? work.compute_seconds / step.step_seconds : 1;
  return step;
}

int nodes_of(const Machine& machine, int ranks) {
  return (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
}

/// Seconds a byte of a collective: the network's, or memory's where all ranks are on one node.
double seconds_per_byte(const Machine& machine, int ranks) {
  return nodes_of(machine, ranks) > 1 ? 1 / machine.bandwidth : copy_traffic / machine.memory_bandwidth;
}

/// `mix_traffic`: models that mixing reads and writes beside the optimizer's step.
StepEstimate exchange_step(const Machine& machine, const StepWork& work, const EdgeLoad& load, double mix_traffic) {
  const double network =
      load.crossing == 0 ? 0 : 2 * machine.latency + load.crossing * work.model_bytes / machine.bandwidth;
  const double traffic = mix_traffic + (load.inside ? copy_traffic : 0);
  return estimate(work, load.mean * work.model_bytes, network, traffic * work.model_bytes / machine.memory_bandwidth,
                  work.hidden_exchange);
}

StepEstimate allreduce_step(const Machine& machine, const StepWork& work, double messages, double models,
                            double exchange_models, int ranks) {
  if (ranks == 1) return estimate(work, 0, 0, 0, 0);
  const double exchange = messages * machine.latency +
                          exchange_models * work.model_bytes * seconds_per_byte(machine, ranks) +
                          reduce_traffic * work.model_bytes / machine.memory_bandwidth;
  StepWork each_step = work;
  each_step.every = 1;  // gradients are of no use later
  // The last bucket is complete when the computing is, and its messages follow each other.
  return estimate(each_step, models * work.model_bytes, exchange, 0, work.hidden_allreduce, messages * machine.latency);
}

}  // namespace

EdgeLoad edge_load(const Topology& topology, const std::vector<int>& node_of_rank) {
  EdgeLoad load;
  std::vector<int> crossing;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const auto node = static_cast<std::size_t>(node_of_rank.at(static_cast<std::size_t>(rank)));
    if (crossing.size() <= node) crossing.resize(node + 1, 0);
    int inside = 0;
    for (const Neighbour& neighbour : topology.out_neighbours(rank)) {
      const bool same = node_of_rank[static_cast<std::size_t>(neighbour.rank)] == static_cast<int>(node);
      inside += same ? 1 : 0;
      crossing[node] += same ? 0 : 1;
    }
    const int all = static_cast<int>(topology.out_neighbours(rank).size());
    load.mean += static_cast<double>(all) / topology.ranks();
    load.most = std::max(load.most, all);
    load.inside = load.inside || inside > 0;
  }
  load.crossing = *std::max_element(crossing.begin(), crossing.end());
  return load;
}

StepEstimate neighbour_step(const Machine& machine, const StepWork& work, const EdgeLoad& load) {
  return load.most == 0 ? estimate(work, 0, 0, 0, 0) : exchange_step(machine, work, load, load.most);
}

StepEstimate gossip_step(const Machine& machine, const StepWork& work, int ranks) {
  if (ranks == 1) return estimate(work, 0, 0, 0, 0);
  const bool network = nodes_of(machine, ranks) > 1;
  // The mix is a pass of its own: own weights and halo read, one written.
  return exchange_step(machine, work, {1, 1, !network, network ? std::min(ranks, machine.ranks_per_node) : 0}, 3);
}

StepEstimate ring_allreduce_step(const Machine& machine, const StepWork& work, int ranks) {
  const double models = 2.0 * (ranks - 1) / ranks;
  return allreduce_step(machine, work, 2.0 * (ranks - 1), models, models, ranks);
}

StepEstimate tree_allreduce_step(const Machine& machine, const StepWork& work, int ranks) {
  return allreduce_step(machine, work, 2 * std::ceil(std::log2(ranks)), 2.0 * (ranks - 1) / ranks, 2, ranks);
}

}  // namespace halograd
