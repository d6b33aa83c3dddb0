#pragma once

#include <vector>

#include "graph/topology.hpp"
#include "graph/waiting.hpp"

/// How long a training step takes on a cluster, by the latency-bandwidth model (Hockney, 1994): a message of n bytes
/// takes latency + n / bandwidth. docs/scaling.md has the formulas and what they leave out. What an averager sends and
/// reads for an exchange is given: averagers/exchange_model.hpp takes it from the averager's row.
namespace halograd {

/// A cluster, as the model sees it.
struct Machine {
  double latency = 2e-6;           ///< seconds from rank to rank over the network
  double bandwidth = 12.5e9;       ///< bytes per second and direction of a node's network; its ranks share it
  double memory_bandwidth = 10e9;  ///< bytes per second that one rank reads and writes
  int ranks_per_node = 1;
  double transport =
      0;  ///< seconds of its computing that a rank loses per byte it sends to another node while one comes
};

/// What a rank computes in a step.
struct StepWork {
  double compute_seconds = 0;  ///< load, forward, backward, update, of a rank that is not the slowest
  Unevenness uneven{};
};

/// What each rank of a group that shares a replica sends to the others per step. It waits for each exchange in turn.
struct GroupTraffic {
  double exchanges = 0, bytes = 0;
};

/// Seconds per step that a group of `group_ranks` consecutive ranks spends on its messages; 0 inside a node.
double group_seconds(const Machine& machine, const GroupTraffic& traffic, int group_ranks);

/// What a rank does for an exchange.
struct ExchangeWork {
  double message_bytes = 0;   ///< to each neighbour; of an all-reduce: the gradient's
  double memory_bytes = 0;    ///< read and written in memory, beside the optimizer's step
  double step_bytes = 0;      ///< the same in each step, with an exchange or without, at a free pace
  double coding_seconds = 0;  ///< to code what is sent and to decode what has come
  int every = 1;              ///< steps from exchange to exchange (H), at least
  double hidden = 1;          ///< share of the computing, at its end, that the exchange runs beside
  double last_bytes = 0;      ///< all-reduce: of the gradient's, those that are complete only when the computing is
};

/// Means over ranks and steps.
struct StepEstimate {
  double bytes = 0;             ///< sent per rank and step
  double exchange_seconds = 0;  ///< what an exchange takes on the network, hidden or not
  double step_seconds = 0;      ///< P ranks make P / step_seconds steps per second
  double efficiency = 0;        ///< compute_seconds / step_seconds
  double period = 1;            ///< steps from exchange to exchange: H or, at a free pace, what the network allows
};

/// The edges of an exchange, as the model needs them.
struct EdgeLoad {
  Graph in{};           ///< in-neighbours of each rank
  double mean = 0;      ///< out-edges per rank
  int most = 0;         ///< of any rank
  bool inside = false;  ///< a rank has neighbours on its own node, which all read one copy of its weights
  int crossing = 0;     ///< of all ranks of the busiest node together, to other nodes
};

/// Those of the exchanges in turn: one for a graph that stays. Throws Error for graphs that do not repeat.
std::vector<EdgeLoad> edge_loads(const Topology& topology, const std::vector<int>& node_of_rank);

/// Ranks wait for what their in-neighbours send in each exchange.
StepEstimate lockstep_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange,
                           const std::vector<EdgeLoad>& loads);
/// Ranks wait for nobody and take what has come. A rank sends again when what it sent before has left.
StepEstimate free_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange,
                       const std::vector<EdgeLoad>& loads);
/// Gradients, all-reduced in each step along a ring that enters and leaves each node once.
StepEstimate ring_allreduce_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange, int ranks);
/// The same through pipelined binary trees (Sanders, Speck, Traeff, 2009).
StepEstimate tree_allreduce_step(const Machine& machine, const StepWork& work, const ExchangeWork& exchange, int ranks);

}  // namespace halograd
