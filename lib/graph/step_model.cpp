#include "graph/step_model.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr double copy_traffic = 2;  // bytes of memory traffic per copied byte: read and written

int nodes_of(const Machine& machine, int ranks) {
  return (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
}

/// Seconds per byte of a collective: the network's, or memory's where all ranks are on one node.
double seconds_per_byte(const Machine& machine, int ranks) {
  return nodes_of(machine, ranks) > 1 ? 1 / machine.bandwidth : copy_traffic / machine.memory_bandwidth;
}

/// Bytes that a rank sends to other nodes, in the mean over the busiest node's.
double sent_bytes(const Machine& machine, const ExchangeWork& exchange, const EdgeLoad& load) {
  return load.crossing * exchange.message_bytes / machine.ranks_per_node;
}

/// Two messages, weights and version, the weights one after the other over the busiest node's network; no faster than
/// ranks move them.
double travel_seconds(const Machine& machine, const ExchangeWork& exchange, const EdgeLoad& load) {
  if (load.crossing == 0) return 0;
  return std::max(2 * machine.latency + load.crossing * exchange.message_bytes / machine.bandwidth,
                  machine.transport * sent_bytes(machine, exchange, load));
}

/// What a rank loses of the computing that an exchange runs beside, `beside` seconds, by moving its bytes.
double lost_seconds(const Machine& machine, double bytes, double travel, double beside) {
  return travel == 0 ? 0 : machine.transport * bytes * std::min(1.0, beside / travel);
}

/// On the critical path, whoever waits for whom.
double local_seconds(const Machine& machine, const ExchangeWork& exchange) {
  return exchange.memory_bytes / machine.memory_bandwidth + exchange.coding_seconds;
}

StepEstimate alone(const StepWork& work) {
  StepEstimate step;
  step.step_seconds = work.compute_seconds;
  step.efficiency = 1;
  return step;
}

/// What is common to both paces, before the time of the step is known.
StepEstimate over_edges(const Machine& machine, const ExchangeWork& exchange, const std::vector<EdgeLoad>& loads) {
  StepEstimate step;
  for (const EdgeLoad& load : loads) {
    const auto turns = static_cast<double>(loads.size());
    step.exchange_seconds += travel_seconds(machine, exchange, load) / turns;
    step.bytes += load.mean * exchange.message_bytes / turns;
  }
  return step;
}

bool has_edges(const std::vector<EdgeLoad>& loads) {
  return std::any_of(loads.begin(), loads.end(), [](const EdgeLoad& load) { return load.most > 0; });
}

StepEstimate allreduce_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange, double messages,
                            double models, double models_in_turn, int ranks) {
  if (ranks == 1) return alone(work);
  StepEstimate step;
  step.bytes = models * exchange.message_bytes;
  const double seconds_per_gradient_byte = models_in_turn * seconds_per_byte(machine, ranks);
  const double moved = nodes_of(machine, ranks) > 1 ? step.bytes : 0;
  step.exchange_seconds = std::max(messages * machine.latency + exchange.message_bytes * seconds_per_gradient_byte,
                                   machine.transport * moved) +
                          local_seconds(machine, exchange);
  const double beside = exchange.hidden * work.compute_seconds;
  const double lost = lost_seconds(machine, moved, step.exchange_seconds, beside);
  // What is complete last, and its messages, which follow each other, have nothing to hide behind.
  const double last = messages * machine.latency + exchange.last_bytes * seconds_per_gradient_byte;
  const double waited = std::max(last, step.exchange_seconds - beside - lost);
  step.step_seconds = slowest_of(ranks, work.uneven) * work.compute_seconds + lost + waited;
  step.efficiency = work.compute_seconds / step.step_seconds;
  return step;
}

}  // namespace

double group_seconds(const Machine& machine, const GroupTraffic& traffic, int group_ranks) {
  if (machine.ranks_per_node % group_ranks == 0) return 0;
  return 2 * machine.latency * traffic.exchanges + machine.ranks_per_node * traffic.bytes / machine.bandwidth;
}

std::vector<EdgeLoad> edge_loads(const Topology& topology, const std::vector<int>& node_of_rank) {
  std::vector<EdgeLoad> loads;
  const DynamicTopology* const changing = topology.dynamic();
  if (changing == nullptr) {
    loads.push_back({topology.graph()});
  } else {
    HALOGRAD_REQUIRE(changing->period() > 0, "topology ", topology.kind(), ": its graphs do not repeat");
    for (std::int64_t step = 0; step < changing->period(); ++step) loads.push_back({changing->at(step)->in});
  }
  for (EdgeLoad& load : loads) {
    std::vector<int> out(load.in.size(), 0), crossing(load.in.size(), 0);
    for (std::size_t rank = 0; rank < load.in.size(); ++rank) {
      for (const int from : load.in[rank]) {
        const int source_node = node_of_rank.at(static_cast<std::size_t>(from));
        const bool same = source_node == node_of_rank.at(rank);
        ++out[static_cast<std::size_t>(from)];
        load.inside = load.inside || same;
        crossing.at(static_cast<std::size_t>(source_node)) += same ? 0 : 1;
      }
      load.mean += static_cast<double>(load.in[rank].size()) / static_cast<double>(load.in.size());
    }
    load.most = *std::max_element(out.begin(), out.end());
    load.crossing = *std::max_element(crossing.begin(), crossing.end());
  }
  return loads;
}

StepEstimate lockstep_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange,
                           const std::vector<EdgeLoad>& loads) {
  if (!has_edges(loads)) return alone(work);
  StepEstimate step = over_edges(machine, exchange, loads);
  std::vector<TimedEdges> edges;
  edges.reserve(loads.size());
  double lost = 0;  // in the mean
  for (const EdgeLoad& load : loads) {
    const double travel = travel_seconds(machine, exchange, load);
    const double of_load =
        lost_seconds(machine, sent_bytes(machine, exchange, load), travel, exchange.hidden * work.compute_seconds);
    edges.push_back({load.in, travel - of_load});  // which goes on in what is lost
    lost += of_load / static_cast<double>(loads.size());
  }
  const LockstepExchange times{work.compute_seconds, exchange.hidden, local_seconds(machine, exchange) + lost,
                               exchange.every};
  step.step_seconds = lockstep_seconds(edges, times, work.uneven);
  step.efficiency = work.compute_seconds / step.step_seconds;
  step.period = exchange.every;
  step.bytes /= step.period;
  return step;
}

StepEstimate free_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange,
                       const std::vector<EdgeLoad>& loads) {
  if (!has_edges(loads)) return alone(work);
  StepEstimate step = over_edges(machine, exchange, loads);
  step.period = std::max<double>(exchange.every, std::ceil(step.exchange_seconds / work.compute_seconds));
  double sent = 0;
  for (const EdgeLoad& load : loads) sent += sent_bytes(machine, exchange, load) / static_cast<double>(loads.size());
  const double local = exchange.step_bytes / machine.memory_bandwidth +
                       (local_seconds(machine, exchange) + machine.transport * sent) / step.period;
  const auto ranks = static_cast<double>(loads.front().in.size());
  const double others = (ranks - 1) / (work.compute_seconds + local);
  const double slowest = 1 / (work.uneven.slowest * work.compute_seconds + local);
  step.step_seconds = ranks / (others + slowest);
  step.efficiency = work.compute_seconds / step.step_seconds;
  step.bytes /= step.period;
  return step;
}

StepEstimate ring_allreduce_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange,
                                 int ranks) {
  const double models = 2.0 * (ranks - 1) / ranks;
  return allreduce_step(machine, work, exchange, 2.0 * (ranks - 1), models, models, ranks);
}

StepEstimate tree_allreduce_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange,
                                 int ranks) {
  return allreduce_step(machine, work, exchange, 2 * std::ceil(std::log2(ranks)), 2.0 * (ranks - 1) / ranks, 2, ranks);
}

}  // namespace halograd
