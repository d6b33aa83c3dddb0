#include "app/simulation.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "graph/mixing.hpp"
#include "graph/spectral_gap.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

TopologyConfig config_of(const SimulationOptions& options, const std::string& kind) {
  TopologyConfig config;
  config.kind = kind;
  config.degree = options.degree;
  return config;
}

long steps_to_tolerance(const SimulationOptions& options, const std::vector<SparseMatrix>& matrices) {
  const std::vector<double> distances =
      simulate_mixing(ExecutionSpace(), matrices, {8, options.tolerance, options.most_steps});
  return distances.back() <= options.tolerance ? static_cast<long>(distances.size()) : -1;
}

SimulatedRow neighbour_row(const SimulationOptions& options, int ranks, const std::string& kind) {
  const std::vector<int> nodes = nodes_of_consecutive(ranks, options.machine.ranks_per_node);
  const Topology topology = make_topology(config_of(options, kind), ranks, nodes);
  const EdgeLoad load = edge_load(topology, nodes);
  return {ranks,
          "neighbour",
          kind,
          load.most,
          spectral_gap(topology),
          steps_to_tolerance(options, {sparse_mixing_matrix(topology)}),
          neighbour_step(options.machine, options.work, load)};
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
  for (const std::string& kind : options.topologies) {
    const TopologyRow& row = row_of(topologies(), kind, "--topology");
    HALOGRAD_REQUIRE(!row.from_file, "--topology ", kind,
                     ": the graph of a file has a fixed number of ranks; use halograd topology");
    HALOGRAD_REQUIRE(!row.changes(), "--topology ", kind,
                     ": gossip on one_peer_exponential always has a row of its own; for other changing graphs use "
                     "halograd topology");
    make_topology(config_of(options, kind), 4);  // refuses a degree
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
    for (const std::string& kind : options.topologies) add(neighbour_row(options, ranks, kind));
    add({ranks, "gossip", "one_peer_exponential", 1, -1,
         steps_to_tolerance(options, sparse_mixing_matrices({config_of(options, "one_peer_exponential"), ranks})),
         gossip_step(options.machine, options.work, ranks)});
    add({ranks, "ring_allreduce", "", ranks - 1, 1, 1, ring_allreduce_step(options.machine, options.work, ranks)});
    add({ranks, "tree_allreduce", "", ranks - 1, 1, 1, tree_allreduce_step(options.machine, options.work, ranks)});
  }
  std::printf(
      "steps: until the distance to the mean is %g of its start, \"more\" than %ld; MB sent: per rank and step\n",
      options.tolerance, options.most_steps);
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
