#include "graph/topology_file.hpp"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>
#include <vector>

#include "config/document.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const Place& place, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  fail_at(place, message.str());
}

void refuse_unknown_keys(const Node& table, std::initializer_list<const char*> known) {
  for (const Node& item : table.items) {
    if (std::find(known.begin(), known.end(), item.key) != known.end()) continue;
    std::string expected;
    for (const char* name : known) expected += (expected.empty() ? "" : ", ") + std::string(name);
    refuse(item.key_place, "unknown key \"", item.key, "\"; expected ", expected);
  }
}

const Node& integer(const Node& table, const Place& place, const char* key) {
  const Node* value = table.find(key);
  if (value == nullptr) refuse(place, "key \"", key, "\" is missing");
  if (value->kind != Node::Kind::integer) refuse(value->place, key, " is not an integer");
  return *value;
}

int rank_of(const Node& edge, const char* key, int ranks) {
  const Node& rank = integer(edge, edge.place, key);
  if (rank.integer < 0 || rank.integer >= ranks) {
    refuse(rank.place, key, " = ", rank.integer, "; expected a rank from 0 to ", ranks - 1);
  }
  return static_cast<int>(rank.integer);
}

double weight_of(const Node& edge, bool given) {
  const Node* weight = edge.find("weight");
  if (!given) {
    if (weight != nullptr) {
      refuse(weight->place,
             "an edge has a weight, but topology.weights asks for computed ones, or the first edge has none");
    }
    return 0;
  }
  if (weight == nullptr) {
    refuse(edge.place, "an edge has no weight, but the first one has; give all edges one or none");
  }
  if (weight->kind != Node::Kind::floating && weight->kind != Node::Kind::integer) {
    refuse(weight->place, "weight is not a number");
  }
  if (!(weight->floating > 0 && weight->floating <= 1)) {
    refuse(weight->place, "weight = ", weight->floating, "; expected a number above 0 and at most 1");
  }
  return weight->floating;
}

/// Whether the first edge names a weight: then all have to.
bool names_weights(const Node& file) {
  const Node* edges = file.find("edge");
  return edges != nullptr && !edges->items.empty() && edges->items.front().find("weight") != nullptr;
}

std::vector<std::vector<Neighbour>> read_edges(const Node& file, bool weights_given, int ranks) {
  std::vector<std::vector<Neighbour>> in_neighbours(ranks);
  const Node* edges = file.find("edge");
  if (edges == nullptr) return in_neighbours;
  if (edges->kind != Node::Kind::array) refuse(edges->place, "edge is not an array of tables ([[edge]])");
  for (const Node& edge : edges->items) {
    if (edge.kind != Node::Kind::table) refuse(edge.place, "an edge is not a table ([[edge]])");
    refuse_unknown_keys(edge, {"from", "to", "weight"});
    const int from = rank_of(edge, "from", ranks);
    const int to = rank_of(edge, "to", ranks);
    if (from == to) {
      refuse(edge.find("to")->place, "an edge from rank ", from, " to itself; the self weight is what the edges leave");
    }
    std::vector<Neighbour>& row = in_neighbours[to];
    const auto place = std::lower_bound(row.begin(), row.end(), from,
                                        [](const Neighbour& neighbour, int rank) { return neighbour.rank < rank; });
    if (place != row.end() && place->rank == from) {
      refuse(edge.find("from")->place, "the edge from rank ", from, " to rank ", to, " is given a second time");
    }
    row.insert(place, {from, weight_of(edge, weights_given)});
  }
  return in_neighbours;
}

}  // namespace

Topology read_topology_file(const std::string& path, const std::string& weights, int ranks) {
  const Node file = parse_document(read_text(path), path);
  refuse_unknown_keys(file, {"ranks", "edge"});
  const Node& ranks_of_file = integer(file, Place{path, 0, 0, 0, ""}, "ranks");
  if (ranks_of_file.integer != ranks) {
    refuse(ranks_of_file.place, "made for ", ranks_of_file.integer, " ranks, but this job has ", ranks);
  }
  const bool weights_given = weights == "automatic" && names_weights(file);
  std::vector<std::vector<Neighbour>> in_neighbours = read_edges(file, weights_given, ranks);
  try {
    if (weights == "out_degree") return Topology(DynamicTopology("file", without_weights(in_neighbours)));
    if (!weights_given) in_neighbours = mixing_weights(without_weights(in_neighbours), weights);
    return {"file", std::move(in_neighbours)};
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}

}  // namespace halograd
