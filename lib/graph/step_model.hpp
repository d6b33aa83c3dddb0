#pragma once

#include "graph/topology.hpp"

/// How long a training step takes on a cluster, by the latency-bandwidth model (Hockney, 1994): a message of n bytes
/// takes latency + n / bandwidth. docs/scaling.md has the formulas and what they leave out.
namespace halograd {

/// A cluster, as the model sees it.
struct Machine {
  double latency = 2e-6;           ///< seconds from rank to rank over the network
  double bandwidth = 12.5e9;       ///< bytes per second and direction of a node's network; its ranks share it
  double memory_bandwidth = 10e9;  ///< bytes per second that one rank reads and writes
  int ranks_per_node = 1;
};

/// What a rank does in a step.
struct StepWork {
  double compute_seconds = 0;  ///< load, forward, backward, update
  double model_bytes = 0;
  int every = 1;                     ///< steps from exchange to exchange (H)
  double hidden_exchange = 1;        ///< share of the computing that an exchange of weights can lie behind (CTA)
  double hidden_allreduce = 2. / 3;  ///< the same for gradients: backward, which is two thirds
};

/// Means over the H steps.
struct StepEstimate {
  double bytes = 0;             ///< sent a rank and step
  double exchange_seconds = 0;  ///< of one exchange, hidden or not
  double step_seconds = 0;
  double efficiency = 0;  ///< compute_seconds / step_seconds
};

/// Out-edges, as the model needs them.
struct EdgeLoad {
  double mean = 0;      ///< a rank
  int most = 0;         ///< of any rank
  bool inside = false;  ///< a rank has neighbours on its own node, which all read one copy of its weights
  int crossing = 0;     ///< of all ranks of the busiest node together, to other nodes
};
EdgeLoad edge_load(const Topology& topology, const std::vector<int>& node_of_rank);

/// Weights to the neighbours of a topology.
StepEstimate neighbour_step(const Machine& machine, const StepWork& work, const EdgeLoad& load);
/// Weights to one peer a step, which lies on another node wherever there is one.
StepEstimate gossip_step(const Machine& machine, const StepWork& work, int ranks);
/// Gradients, all-reduced along a ring that enters and leaves each node once.
StepEstimate ring_allreduce_step(const Machine& machine, const StepWork& work, int ranks);
/// Gradients, all-reduced through pipelined binary trees (Sanders, Speck, Traeff, 2009).
StepEstimate tree_allreduce_step(const Machine& machine, const StepWork& work, int ranks);

}  // namespace halograd
