#include "graph/topology_file.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <toml.hpp>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace halograd {

namespace {

/// Message with file, line and caret at `place`.
template <class... Parts>
[[noreturn]] void fail_at(const toml::value& place, const std::string& caret, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  std::string text = toml::format_error(message.str(), place, caret);
  text.erase(0, text.rfind("[error] ", 0) == 0 ? 8 : 0);
  fail(text);
}

void refuse_unknown_keys(const toml::value& table, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : table.as_table()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string expected;
    for (const char* name : known) expected += (expected.empty() ? "" : ", ") + std::string(name);
    fail_at(value, "here", "topology file: unknown key \"", key, "\"; expected ", expected);
  }
}

std::int64_t integer(const toml::value& table, const char* key) {
  if (!table.contains(key)) fail_at(table, "here", "topology file: key \"", key, "\" is missing");
  const toml::value& value = toml::find(table, key);
  if (!value.is_integer()) fail_at(value, "here", "topology file: ", key, " is not an integer");
  return value.as_integer();
}

int rank_of(const toml::value& edge, const char* key, int ranks) {
  const std::int64_t rank = integer(edge, key);
  if (rank < 0 || rank >= ranks) {
    fail_at(toml::find(edge, key), "here", "topology file: ", key, " = ", rank, "; expected a rank from 0 to ",
            ranks - 1);
  }
  return static_cast<int>(rank);
}

double weight_of(const toml::value& edge, bool given) {
  if (!given) {
    if (edge.contains("weight")) {
      fail_at(toml::find(edge, "weight"), "here",
              "topology file: an edge has a weight, but topology.weights asks for computed ones, or the first edge has "
              "none");
    }
    return 0;
  }
  if (!edge.contains("weight")) {
    fail_at(edge, "this edge",
            "topology file: an edge has no weight, but the first one has; give all edges one or none");
  }
  const toml::value& value = toml::find(edge, "weight");
  if (!value.is_floating() && !value.is_integer()) fail_at(value, "here", "topology file: weight is not a number");
  const double weight = value.is_floating() ? value.as_floating() : static_cast<double>(value.as_integer());
  if (!(weight > 0 && weight <= 1)) {
    fail_at(value, "here", "topology file: weight = ", weight, "; expected a number above 0 and at most 1");
  }
  return weight;
}

toml::value parse(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  HALOGRAD_REQUIRE(stream.good(), "topology file \"", path, "\" cannot be opened");
  try {
    return toml::parse(stream, path);
  } catch (const std::exception& error) {
    fail("topology file: ", error.what());
  }
}

/// Whether the first edge names a weight: then all have to.
bool names_weights(const toml::value& file) {
  if (!file.contains("edge")) return false;
  const toml::value& edges = toml::find(file, "edge");
  return edges.is_array() && !edges.as_array().empty() && edges.as_array().front().is_table() &&
         edges.as_array().front().contains("weight");
}

std::vector<std::vector<Neighbour>> read_edges(const toml::value& file, bool weights_given, int ranks) {
  std::vector<std::vector<Neighbour>> in_neighbours(ranks);
  if (!file.contains("edge")) return in_neighbours;
  const toml::value& edges = toml::find(file, "edge");
  if (!edges.is_array()) fail_at(edges, "here", "topology file: edge is not an array of tables ([[edge]])");
  for (const toml::value& edge : edges.as_array()) {
    if (!edge.is_table()) fail_at(edge, "here", "topology file: an edge is not a table ([[edge]])");
    refuse_unknown_keys(edge, {"from", "to", "weight"});
    const int from = rank_of(edge, "from", ranks);
    const int to = rank_of(edge, "to", ranks);
    if (from == to) {
      fail_at(toml::find(edge, "to"), "here", "topology file: an edge from rank ", from,
              " to itself; the self weight is what the edges leave");
    }
    std::vector<Neighbour>& row = in_neighbours[to];
    const auto place = std::lower_bound(row.begin(), row.end(), from,
                                        [](const Neighbour& neighbour, int rank) { return neighbour.rank < rank; });
    if (place != row.end() && place->rank == from) {
      fail_at(toml::find(edge, "from"), "here", "topology file: the edge from rank ", from, " to rank ", to,
              " stands here a second time");
    }
    row.insert(place, {from, weight_of(edge, weights_given)});
  }
  return in_neighbours;
}

}  // namespace

Topology read_topology_file(const std::string& path, const std::string& weights, int ranks) {
  const toml::value file = parse(path);
  refuse_unknown_keys(file, {"ranks", "edge"});
  const std::int64_t ranks_of_file = integer(file, "ranks");
  if (ranks_of_file != ranks) {
    fail_at(toml::find(file, "ranks"), "here", "topology file: made for ", ranks_of_file, " ranks, but this job has ",
            ranks);
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
