#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "graph/spectral_gap.hpp"
#include "graph/topology_table.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace halograd {

namespace {

constexpr double bytes_per_parameter = 4;  // weights travel as 32-bit floats
constexpr int rows_shown = 16;             // without --edges
constexpr int neighbours_shown = 8;        // of a rank, without --edges
constexpr int most_ranks = 8192;           // the dense mixing matrix is 512 MiB then

struct TopologyOptions {
  TopologyConfig config;
  int ranks = 0;
  long parameters = 431080;  // lenet5
  int node_ranks = 0;        // 0: all on one node
  bool edges = false;
  bool json = false;
};

std::vector<int> nodes_of(const TopologyOptions& options) {
  return nodes_of_consecutive(options.ranks, options.node_ranks == 0 ? options.ranks : options.node_ranks);
}

/// What a user weighs when choosing a graph.
struct Figures {
  long edges = 0;
  long crossing = 0;  // between nodes
  int most_neighbours = 0;
  double gap = 0;
  double steps_to_a_tenth = 0;  // steps in which averaging alone brings the consensus error to a tenth
  double neighbour_bytes = 0;   // sent a rank and step, mean over ranks
  double allreduce_bytes = 0;   // the same for a ring all-reduce
};

Figures figures_of(const TopologyOptions& options, const Topology& topology) {
  const int ranks = topology.ranks();
  Figures figures;
  figures.crossing = crossing_edges(topology, nodes_of(options));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto neighbours = static_cast<int>(topology.out_neighbours(rank).size());
    figures.edges += neighbours;
    figures.most_neighbours = std::max(figures.most_neighbours, neighbours);
  }
  figures.gap = spectral_gap(topology);
  // Rounding leaves a second eigenvalue of 0 as some 1e-17: one step is the least.
  const double second = std::clamp(1 - figures.gap, 0.1, 1.0);
  figures.steps_to_a_tenth = std::log(10.0) / std::abs(std::log(second));
  const double model = bytes_per_parameter * static_cast<double>(options.parameters);
  figures.neighbour_bytes = model * static_cast<double>(figures.edges) / ranks;
  figures.allreduce_bytes = model * 2 * (ranks - 1) / ranks;
  return figures;
}

void print_bytes(const char* label, double bytes, double model) {
  std::cout << label << with_thousands(bytes) << " bytes per rank and step (" << bytes / model << " models)\n";
}

void print_edges(const Topology& topology, bool all) {
  const int ranks = topology.ranks();
  const int shown = all ? ranks : std::min(ranks, rows_shown);
  std::cout << "\nrank  own weight  takes the weights of (with mixing weight)\n" << std::setprecision(4) << std::fixed;
  for (int rank = 0; rank < shown; ++rank) {
    std::cout << std::setw(4) << rank << std::setw(12) << topology.self_weight(rank) << " ";
    const auto& neighbours = topology.in_neighbours(rank);
    const auto most = static_cast<std::ptrdiff_t>(all ? neighbours.size() : neighbours_shown);
    const auto count = std::min(static_cast<std::ptrdiff_t>(neighbours.size()), most);
    std::for_each(neighbours.begin(), neighbours.begin() + count, [](const Neighbour& neighbour) {
      std::cout << " " << neighbour.rank << " (" << neighbour.weight << ")";
    });
    const auto left = static_cast<std::ptrdiff_t>(neighbours.size()) - count;
    std::cout << (left > 0 ? " and " + std::to_string(left) + " more" : "") << "\n";
  }
  if (shown < ranks) std::cout << "... and " << ranks - shown << " more ranks; --edges prints all of them\n";
}

void print_text(const TopologyOptions& options, const Topology& topology) {
  const Figures figures = figures_of(options, topology);
  const double model = bytes_per_parameter * static_cast<double>(options.parameters);
  std::cout << std::setprecision(4);
  std::cout << "topology         " << topology.kind() << "\n"
            << "ranks            " << options.ranks << "\n"
            << "edges            " << figures.edges << ", at most " << figures.most_neighbours << " from a rank\n";
  if (options.node_ranks > 0) {
    std::cout << "between nodes    " << figures.crossing << " edges, with " << options.node_ranks
              << " ranks per node\n";
  }
  std::cout << "spectral gap     " << figures.gap << "\n";
  if (std::isfinite(figures.steps_to_a_tenth)) {
    std::cout << "averaging steps  " << figures.steps_to_a_tenth << " to a tenth of the consensus error\n";
  } else {
    std::cout << "averaging steps  the replicas never agree: the second eigenvalue is 1\n";
  }
  std::cout << "model            " << with_thousands(static_cast<double>(options.parameters)) << " parameters, "
            << with_thousands(model) << " bytes\n";
  print_bytes("this topology    ", figures.neighbour_bytes, model);
  print_bytes("ring all-reduce  ", figures.allreduce_bytes, model);
  const int slow_above = row_of(options.config).slow_above;
  if (slow_above > 0 && options.ranks > slow_above) {
    std::cout << "note             a " << topology.kind() << " of " << options.ranks
              << " ranks mixes slowly; torus2d and exponential need far fewer steps\n";
  }
  print_edges(topology, options.edges);
}

void print_json(const TopologyOptions& options, const Topology& topology) {
  const Figures figures = figures_of(options, topology);
  std::vector<int> from, to;
  std::vector<double> weight, self_weight;
  for (int rank = 0; rank < options.ranks; ++rank) {
    self_weight.push_back(topology.self_weight(rank));
    for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
      from.push_back(neighbour.rank);
      to.push_back(rank);
      weight.push_back(neighbour.weight);
    }
  }
  Json object;
  object["topology"] = topology.kind();
  object["ranks"] = static_cast<long>(options.ranks);
  object["edges"] = figures.edges;
  object["edges_between_nodes"] = figures.crossing;
  object["spectral_gap"] = figures.gap;
  // JSON has no infinity: a graph that never mixes has no such key.
  if (std::isfinite(figures.steps_to_a_tenth)) object["steps_to_a_tenth"] = figures.steps_to_a_tenth;
  object["parameters"] = options.parameters;
  object["bytes_sent"] = figures.neighbour_bytes;
  object["allreduce_bytes_sent"] = figures.allreduce_bytes;
  object["edge_from"] = from;
  object["edge_to"] = to;
  object["edge_weight"] = weight;
  object["self_weight"] = self_weight;
  std::cout << json_text(object) << "\n";
}

/// A graph that changes: what a step costs, how many steps replicas need, and the first steps' edges.
void print_dynamic(const TopologyOptions& options, const DynamicTopology& topology) {
  constexpr long most_steps = 10000;
  const long steps = steps_to_consensus(topology, 0.1, most_steps);
  const double model = bytes_per_parameter * static_cast<double>(options.parameters);
  double edges = 0;
  for (int rank = 0; rank < topology.ranks(); ++rank) edges += topology.mean_out(rank);
  const double allreduce = model * 2 * (options.ranks - 1) / options.ranks;
  if (options.json) {
    Json object;
    object["topology"] = topology.kind();
    object["ranks"] = static_cast<long>(options.ranks);
    object["edges"] = edges;
    object["period"] = static_cast<long>(topology.period());
    object["steps_to_a_tenth"] = steps;
    object["parameters"] = options.parameters;
    object["bytes_sent"] = model * edges / options.ranks;
    object["allreduce_bytes_sent"] = allreduce;
    std::cout << json_text(object) << "\n";
    return;
  }
  std::cout << std::setprecision(4) << "topology         " << topology.kind() << ", a different graph in each step"
            << (topology.period() > 0 ? ", repeating after " + std::to_string(topology.period()) : "") << "\n"
            << "ranks            " << options.ranks << "\n"
            << "edges            " << edges << " per step\n"
            << "averaging steps  " << steps << " to a tenth of the consensus error\n"
            << "model            " << with_thousands(static_cast<double>(options.parameters)) << " parameters, "
            << with_thousands(model) << " bytes\n";
  print_bytes("this topology    ", model * edges / options.ranks, model);
  print_bytes("ring all-reduce  ", allreduce, model);
  const int shown = options.edges ? options.ranks : std::min(options.ranks, rows_shown);
  std::cout << "\nrank  takes half of the weights of this rank in step 0, 1, 2, ... (-: of no rank)\n";
  for (int rank = 0; rank < shown; ++rank) {
    std::cout << std::setw(4) << rank << " ";
    for (std::int64_t step = 0; step < neighbours_shown; ++step) {
      const auto graph = topology.at(step);
      const std::vector<int>& in = graph->in[static_cast<std::size_t>(rank)];
      std::cout << " " << std::setw(4) << (in.empty() ? "-" : std::to_string(in.front()));
    }
    std::cout << "\n";
  }
  if (shown < options.ranks)
    std::cout << "... and " << options.ranks - shown << " more ranks; --edges prints all of them\n";
}

}  // namespace

void add_topology(CLI::App& app) {
  auto options = std::make_shared<TopologyOptions>();
  CLI::App* command = app.add_subcommand("topology", "Show the edges, weights, spectral gap and traffic of a topology");
  command->add_option("--ranks", options->ranks, "Number of ranks")->required()->check(CLI::Range(1, most_ranks));
  CLI::Option* kind = command->add_option("--kind", options->config.kind, listed(names_of(topologies())));
  command->add_option("--file", options->config.file, "Topology file, instead of --kind")->excludes(kind);
  command->add_option("--weights", options->config.weights, listed(names_of(weight_rules())));
  command->add_option("--degree", options->config.degree, "random_regular: neighbours per rank, an even number");
  command->add_option("--seed", options->config.seed, "Seed of the random graphs");
  command->add_option("--ranks-per-node", options->node_ranks, "Lay the graph out on nodes with this many ranks each")
      ->check(CLI::Range(1, most_ranks));
  command->add_option("--parameters", options->parameters, "Number of parameters of the model (default: lenet5's)")
      ->check(CLI::Range(1L, 1000000000000L));
  command->add_flag("--edges", options->edges, "Print all edges, even if there are many");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] {
    if (!options->config.file.empty()) options->config.kind = "file";
    const Topology topology = make_topology(options->config, options->ranks, nodes_of(*options));
    if (topology.dynamic() != nullptr) {
      print_dynamic(*options, *topology.dynamic());
      return;
    }
    options->json ? print_json(*options, topology) : print_text(*options, topology);
  });
}

}  // namespace halograd
