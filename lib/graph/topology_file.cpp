#include "graph/topology_file.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "config/document.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"
#include "support/text_file.hpp"

namespace halograd {

namespace {

void refuse_unknown_keys(const Node& table, const std::vector<std::string>& known) {
  for (const Node& item : table.items) {
    if (std::find(known.begin(), known.end(), item.key) != known.end()) continue;
    fail_at(item.key_place, "unknown key \"" + item.key + "\" in a topology file" + did_you_mean(item.key, known),
            "expected " + listed(known));
  }
}

const Node& integer(const Node& table, const std::string& key) {
  const Node* node = table.find(key);
  if (node == nullptr) fail_at(table.place, "the key \"" + key + "\" is missing");
  if (node->kind != Node::Kind::integer) {
    fail_at(node->place, key + " is not an integer: found " + describe(*node));
  }
  return *node;
}

int rank_of(const Node& edge, const std::string& key, int ranks) {
  const Node& node = integer(edge, key);
  if (node.integer < 0 || node.integer >= ranks) {
    fail_at(node.place,
            key + " = " + std::to_string(node.integer) + "; expected a rank from 0 to " + std::to_string(ranks - 1));
  }
  return static_cast<int>(node.integer);
}

double weight_of(const Node& edge, bool given) {
  const Node* node = edge.find("weight");
  if (!given) {
    if (node == nullptr) return 0;
    fail_at(node->place,
            "an edge has a weight, but topology.weights asks for computed ones, or the first edge has none");
  }
  if (node == nullptr)
    fail_at(edge.place, "an edge has no weight, but the first one has; give all edges a weight or none");
  if (node->kind != Node::Kind::floating && node->kind != Node::Kind::integer) {
    fail_at(node->place, "weight is not a number: found " + describe(*node));
  }
  if (!(node->floating > 0 && node->floating <= 1)) {
    fail_at(node->place, "weight = " + short_number(node->floating) + "; expected a number above 0 and at most 1");
  }
  return node->floating;
}

/// The edges; none where the file has none.
const std::vector<Node>& edges_of(const Node& file) {
  static const std::vector<Node> none;
  const Node* edges = file.find("edge");
  if (edges == nullptr) return none;
  if (edges->kind != Node::Kind::array) fail_at(edges->place, "edge is not an array of tables ([[edge]])");
  for (const Node& edge : edges->items) {
    if (edge.kind != Node::Kind::table) fail_at(edge.place, "an edge is not a table ([[edge]])");
    refuse_unknown_keys(edge, {"from", "to", "weight"});
  }
  return edges->items;
}

std::vector<std::vector<Neighbour>> read_edges(const std::vector<Node>& edges, bool weights_given, int ranks) {
  std::vector<std::vector<Neighbour>> in_neighbours(ranks);
  for (const Node& edge : edges) {
    const int from = rank_of(edge, "from", ranks);
    const int to = rank_of(edge, "to", ranks);
    if (from == to) {
      fail_at(edge.find("to")->place,
              "an edge from rank " + std::to_string(from) + " to itself; the self weight is what the edges leave");
    }
    std::vector<Neighbour>& row = in_neighbours[to];
    const auto place = std::lower_bound(row.begin(), row.end(), from,
                                        [](const Neighbour& neighbour, int rank) { return neighbour.rank < rank; });
    if (place != row.end() && place->rank == from) {
      fail_at(edge.find("from")->place, "the edge from rank " + std::to_string(from) + " to rank " +
                                            std::to_string(to) + " is given a second time");
    }
    row.insert(place, {from, weight_of(edge, weights_given)});
  }
  return in_neighbours;
}

}  // namespace

Topology read_topology_file(const std::string& path, const std::string& weights, int ranks) {
  const std::string kind = "file";
  const Node file = parse_document(read_text(path), path);
  refuse_unknown_keys(file, {"ranks", "edge"});
  const std::string key = "ranks";  // g++ 14 takes a reference beside a temporary for dangling
  const Node& count = integer(file, key);
  if (count.integer != ranks) {
    fail_at(count.place,
            "made for " + std::to_string(count.integer) + " ranks, but this job has " + std::to_string(ranks));
  }
  const std::vector<Node>& edges = edges_of(file);
  // With a weight on the first edge, all have to have one.
  const bool weights_given =
      weight_row_of(weights).from_file && !edges.empty() && edges.front().find("weight") != nullptr;
  std::vector<std::vector<Neighbour>> in_neighbours = read_edges(edges, weights_given, ranks);
  try {
    if (weights_given) return {kind, std::move(in_neighbours)};
    return weighted(kind, without_weights(in_neighbours), weights);
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}

}  // namespace halograd
