#include "app/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

#include "averagers/averager_table.hpp"
#include "averagers/codec_table.hpp"
#include "averagers/exchange_model.hpp"
#include "graph/mixing.hpp"
#include "graph/spectral_gap.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"
#include "run/averager_checks.hpp"

namespace halograd {
namespace {

TopologyConfig config_of(const SimulationOptions& options, const std::string& kind) {
  TopologyConfig config;
  config.kind = kind;
  config.degree = options.degree;
  return config;
}

/// With an exchange, by the matrices in turn, in every `period`-th step.
long steps_to_tolerance(const SimulationOptions& options, const std::vector<SparseMatrix>& matrices, double period) {
  const std::vector<double> distances =
      simulate_mixing(ExecutionSpace(), matrices, {8, options.tolerance, options.most_exchanges});
  return distances.back() <= options.tolerance ? std::lround(period * static_cast<double>(distances.size())) : -1;
}

/// The mixing of exchanges that go only this share of the way to the neighbours.
Topology part_way(const Topology& topology, double share) {
  std::vector<std::vector<Neighbour>> rows;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for (Neighbour& each : rows.emplace_back(topology.in_neighbours(rank))) each.weight *= share;
  }
  return {topology.kind(), std::move(rows)};
}

/// Whether push-sum's weights are no doubly stochastic ones: a sender splits evenly what it has.
bool has_uneven_degrees(const Topology& topology) {
  const auto degree = [&](int rank) { return topology.out_neighbours(rank).size(); };
  for (int rank = 1; rank < topology.ranks(); ++rank) {
    if (degree(rank) != degree(0)) return true;
  }
  return false;
}

ModelledJob job_of(const SimulationOptions& options, int ranks) {
  return {options.machine, ranks, options.parameters};
}

/// The averager that is asked for, on a graph of ranks or of nodes.
SimulatedRow averager_row(const SimulationOptions& options, int ranks, const std::string& kind) {
  const TopologyConfig config = config_of(options, kind);
  const int node_ranks = options.machine.ranks_per_node;
  const AveragerRow& row = row_of(options.averager);
  const Topology graph = row.of_nodes ? make_topology(config, (ranks + node_ranks - 1) / node_ranks)
                                      : make_topology(config, ranks, nodes_of_consecutive(ranks, node_ranks));
  const ExchangeModel model(options.averager, config, job_of(options, ranks), options.coding);
  const StepEstimate step = model.step(options.work, options.averager.every);
  const bool splits = row.out_degree && has_uneven_degrees(graph);
  const Topology topology = part_way(graph, consensus_step_of(options.averager));
  const std::vector<SparseMatrix> matrices = splits ? sparse_mixing_matrices(DynamicTopology(kind, graph.graph()))
                                                    : std::vector<SparseMatrix>{sparse_mixing_matrix(topology)};
  return {ranks,
          options.averager.name,
          kind,
          model.most_neighbours(),
          splits ? -1 : spectral_gap(topology),
          steps_to_tolerance(options, matrices, step.period),
          step};
}

/// The neighbour averager with another peer in each step.
SimulatedRow gossip_row(const SimulationOptions& options, int ranks) {
  const TopologyConfig config = config_of(options, "one_peer_exponential");
  const ExchangeModel model({}, config, job_of(options, ranks));
  const StepEstimate step = model.step(options.work, options.averager.every);
  const long steps = steps_to_tolerance(options, sparse_mixing_matrices({config, ranks}), step.period);
  return {ranks, "gossip", config.kind, model.most_neighbours(), -1, steps, step};
}

void print(const SimulatedRow& row) {
  const std::string gap = row.gap < 0 ? "-" : (std::ostringstream() << row.gap).str();
  const std::string steps = row.steps < 0 ? "more" : std::to_string(row.steps);
  std::printf("%6d  %-15s %-21s %5d  %11s %6s  %10.2f %11.3f %11.3f %9.1f %%\n", row.ranks, row.averager.c_str(),
              row.topology.empty() ? "-" : row.topology.c_str(), row.neighbours, gap.c_str(), steps.c_str(),
              1e-6 * row.step.bytes, 1e3 * row.step.exchange_seconds, 1e3 * row.step.step_seconds,
              100 * row.step.efficiency);
  std::fflush(stdout);
}

}  // namespace

void require_possible(const SimulationOptions& options) {
  const AveragerRow& averager = row_of(options.averager);
  HALOGRAD_REQUIRE(averager.exchanges == Exchange::weights && averager.graphs != Graphs::none,
                   "--set averager.name is \"", options.averager.name,
                   "\"; expected an averager that exchanges weights along the edges of a graph (the all-reduces always "
                   "have rows of their own)");
  HALOGRAD_REQUIRE(options.averager.global_every == 0, "--set averager.global_every is ", options.averager.global_every,
                   ", but exact averages are not simulated; expected 0");
  for (const std::string& kind : options.topologies) {
    const TopologyRow& row = row_of(topologies(), kind, "--topology");
    HALOGRAD_REQUIRE(!row.from_file, "--topology ", kind,
                     ": the graph of a file has a fixed number of ranks; use halograd topology");
    HALOGRAD_REQUIRE(!row.changes(), "--topology ", kind,
                     ": gossip on one_peer_exponential always has a row of its own; for other changing graphs use "
                     "halograd topology");
    make_topology(config_of(options, kind), 4);  // refuses a degree
    RunConfig config;
    config.averager = options.averager;
    config.topology = config_of(options, kind);
    const auto conflict = averager_conflict(config);
    HALOGRAD_REQUIRE(!conflict, "--topology ", kind, ": ", conflict->message, "; ", conflict->hint);
    const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
    HALOGRAD_REQUIRE(most <= row.most_simulated, "--topology ", kind, ": ", most,
                     " ranks have too many edges to simulate; expected at most ", *row.most_simulated,
                     " ranks with this topology");
  }
}

std::vector<SimulatedRow> simulate_all(const SimulationOptions& options) {
  std::printf("\n%6s  %-15s %-21s %5s  %11s %6s  %10s %11s %11s %11s\n", "ranks", "averager", "topology", "peers",
              "gap", "steps", "MB sent", "exchange ms", "step ms", "efficiency");
  std::vector<SimulatedRow> rows;
  const auto add = [&](SimulatedRow row) {
    print(row);
    rows.push_back(std::move(row));
  };
  for (const int ranks : options.ranks) {
    for (const std::string& kind : options.topologies) add(averager_row(options, ranks, kind));
    add(gossip_row(options, ranks));
    AveragerConfig allreduce;
    allreduce.name = "allreduce";
    const ExchangeWork sum = ExchangeModel(allreduce, {}, job_of(options, ranks)).work();
    add({ranks, "ring_allreduce", "", ranks - 1, 1, 1, ring_allreduce_step(options.machine, options.work, sum, ranks)});
    add({ranks, "tree_allreduce", "", ranks - 1, 1, 1, tree_allreduce_step(options.machine, options.work, sum, ranks)});
  }
  std::printf(
      "steps: until the distance to the mean is %g of its start, \"more\" than %ld exchanges; MB sent: per rank and "
      "step\n",
      options.tolerance, options.most_exchanges);
  return rows;
}

std::string csv_of(const std::vector<SimulatedRow>& rows) {
  std::ostringstream text;
  text.precision(10);
  text << "ranks,averager,topology,neighbours,spectral_gap,steps_to_consensus,bytes_sent,exchange_seconds,step_"
          "seconds,"
          "efficiency\n";
  for (const SimulatedRow& row : rows) {
    text << row.ranks << ',' << row.averager << ',' << row.topology << ',' << row.neighbours << ',';
    if (row.gap >= 0) text << row.gap;
    text << ',';
    if (row.steps >= 0) text << row.steps;
    text << ',' << row.step.bytes << ',' << row.step.exchange_seconds << ',' << row.step.step_seconds << ','
         << row.step.efficiency << '\n';
  }
  return text.str();
}

}  // namespace halograd
