#include "graph/graphs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

using Extents = std::array<int, 3>;

/// The factors of `ranks` that are closest to a square or cube, ascending; unused leading axes are 1.
Extents factorise(int ranks, int axes) {
  if (axes == 1) return {1, 1, ranks};
  int first = static_cast<int>(std::floor(std::pow(static_cast<double>(ranks), 1.0 / axes) + 1e-9));
  while (ranks % first != 0) --first;
  Extents rest = factorise(ranks / first, axes - 1);
  rest[static_cast<std::size_t>(3 - axes)] = first;
  std::sort(rest.begin(), rest.end());
  return rest;
}

/// The tile of `volume` points that cuts the fewest edges of a grid of these extents; the whole grid's first `volume`
/// points in row order where none fits.
Extents tile_of(const Extents& grid, int volume) {
  Extents best{0, 0, 0};
  double fewest = 0;
  for (int a = 1; a <= grid[0]; ++a) {
    for (int b = 1; b <= grid[1]; ++b) {
      if (volume % (a * b) != 0 || grid[0] % a != 0 || grid[1] % b != 0) continue;
      const int c = volume / (a * b);
      if (c > grid[2] || grid[2] % c != 0) continue;
      const Extents tile{a, b, c};
      double cut = 0;  // edges a point that leave the tile: an axis that the tile spans leaves none
      for (std::size_t axis = 0; axis < 3; ++axis) cut += tile[axis] == grid[axis] ? 0 : 2.0 / tile[axis];
      if (best[0] != 0 && cut >= fewest) continue;
      best = tile;
      fewest = cut;
    }
  }
  return best[0] != 0 ? best : grid;
}

/// A grid or torus whose points are numbered tile by tile, in row order inside a tile and from tile to tile.
Graph lattice(int ranks, int axes, bool periodic, int node_ranks) {
  const Extents grid = factorise(ranks, axes);
  const Extents tile = tile_of(grid, node_ranks);
  const auto number = [&](const Extents& point) {
    int of_tile = 0, inside = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      of_tile = of_tile * (grid[axis] / tile[axis]) + point[axis] / tile[axis];
      inside = inside * tile[axis] + point[axis] % tile[axis];
    }
    return of_tile * tile[0] * tile[1] * tile[2] + inside;
  };
  Graph graph(static_cast<std::size_t>(ranks));
  Extents point{};
  for (point[0] = 0; point[0] < grid[0]; ++point[0]) {
    for (point[1] = 0; point[1] < grid[1]; ++point[1]) {
      for (point[2] = 0; point[2] < grid[2]; ++point[2]) {
        std::vector<int>& neighbours = graph[static_cast<std::size_t>(number(point))];
        for (std::size_t axis = 0; axis < 3; ++axis) {
          for (const int step : {-1, 1}) {
            Extents next = point;
            next[axis] += step;
            if (periodic) next[axis] = (next[axis] + grid[axis]) % grid[axis];
            if (next[axis] >= 0 && next[axis] < grid[axis]) neighbours.push_back(number(next));
          }
        }
      }
    }
  }
  return graph;
}

/// All labels that differ in one bit. Where `ranks` is no power of two, the part of the cube whose labels exist: still
/// connected, since clearing the highest bit leads down to 0.
std::vector<int> hypercube(int rank, int ranks) {
  std::vector<int> neighbours;
  for (long bit = 1; bit < ranks; bit *= 2) {
    const int other = rank ^ static_cast<int>(bit);
    if (other < ranks) neighbours.push_back(other);
  }
  return neighbours;
}

std::vector<int> exponential(int rank, int ranks) {
  std::vector<int> neighbours;
  for (long hop = 1; hop < ranks; hop *= 2) neighbours.push_back(static_cast<int>((rank - hop + ranks) % ranks));
  return neighbours;
}

std::vector<int> star(int rank, int ranks) {
  std::vector<int> neighbours{0};
  if (rank == 0) {
    neighbours.resize(static_cast<std::size_t>(ranks));
    std::iota(neighbours.begin(), neighbours.end(), 0);
  }
  return neighbours;
}

std::vector<int> complete(int /*rank*/, int ranks) {
  std::vector<int> neighbours(static_cast<std::size_t>(ranks));
  std::iota(neighbours.begin(), neighbours.end(), 0);
  return neighbours;
}

Graph rank_by_rank(int ranks, std::vector<int> (*neighbours)(int, int)) {
  Graph graph;
  for (int rank = 0; rank < ranks; ++rank) graph.push_back(neighbours(rank, ranks));
  return graph;
}

/// The union of degree / 2 random cycles through all ranks: connected, and an expander with high probability (Friedman,
/// 2008, for the permutation model). Where cycles share an edge, its ranks have a lower degree.
Graph random_regular(int ranks, int degree, std::uint64_t seed) {
  HALOGRAD_REQUIRE(degree >= 2 && degree % 2 == 0, "topology.degree is ", degree,
                   "; expected an even number, at least 2 (a random regular graph is a union of cycles)");
  Graph graph(static_cast<std::size_t>(ranks));
  for (int cycle = 0; cycle < degree / 2; ++cycle) {
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t left = order.size(); left > 1; --left) {
      const std::uint64_t bits = random_bits(random_bits(seed, static_cast<std::uint64_t>(cycle)), left);
      std::swap(order[left - 1], order[bits % left]);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int from = order[i], to = order[(i + 1) % order.size()];
      graph[static_cast<std::size_t>(from)].push_back(to);
      graph[static_cast<std::size_t>(to)].push_back(from);
    }
  }
  return graph;
}

/// Wrap-around can name a rank twice, or the rank itself, on small graphs: each neighbour counts once, itself never.
void tidy(Graph& graph) {
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    std::vector<int>& neighbours = graph[rank];
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    neighbours.erase(std::remove(neighbours.begin(), neighbours.end(), static_cast<int>(rank)), neighbours.end());
  }
}

/// The ranks of each node where all nodes have equally many; all ranks otherwise.
int ranks_of_a_node(const std::vector<int>& node_of_rank, int ranks) {
  std::vector<int> nodes = node_of_rank;
  std::sort(nodes.begin(), nodes.end());
  const auto first = std::upper_bound(nodes.begin(), nodes.end(), nodes.empty() ? 0 : nodes.front()) - nodes.begin();
  const int node_ranks = nodes.empty() ? ranks : static_cast<int>(first);
  for (auto at = nodes.begin(); at != nodes.end();) {
    const auto end = std::upper_bound(at, nodes.end(), *at);
    if (end - at != node_ranks) return ranks;
    at = end;
  }
  return node_ranks;
}

/// Gives position p of the graph to the p-th rank in the order of the nodes.
Graph laid_out(const Graph& graph, const std::vector<int>& node_of_rank) {
  const std::vector<int> rank_at = ranks_by_node(static_cast<int>(graph.size()), node_of_rank);
  Graph result(graph.size());
  for (std::size_t position = 0; position < graph.size(); ++position) {
    for (const int neighbour : graph[position]) {
      result[static_cast<std::size_t>(rank_at[position])].push_back(rank_at[static_cast<std::size_t>(neighbour)]);
    }
  }
  return result;
}

}  // namespace

std::vector<int> ranks_by_node(int ranks, const std::vector<int>& node_of_rank) {
  HALOGRAD_REQUIRE(node_of_rank.empty() || static_cast<int>(node_of_rank.size()) == ranks, "topology: the nodes of ",
                   node_of_rank.size(), " ranks are given; expected ", ranks);
  std::vector<int> rank_at(static_cast<std::size_t>(ranks));
  std::iota(rank_at.begin(), rank_at.end(), 0);
  if (!node_of_rank.empty()) {
    std::stable_sort(rank_at.begin(), rank_at.end(), [&](int a, int b) {
      return node_of_rank[static_cast<std::size_t>(a)] < node_of_rank[static_cast<std::size_t>(b)];
    });
  }
  return rank_at;
}

Graph make_graph(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank) {
  HALOGRAD_REQUIRE(node_of_rank.empty() || static_cast<int>(node_of_rank.size()) == ranks, "topology: the nodes of ",
                   node_of_rank.size(), " ranks are given; expected ", ranks);
  const int node_ranks = ranks_of_a_node(node_of_rank, ranks);
  const std::string& kind = config.kind;
  Graph graph;
  if (kind == "ring") graph = lattice(ranks, 1, true, node_ranks);
  if (kind == "line") graph = lattice(ranks, 1, false, node_ranks);
  if (kind == "grid2d") graph = lattice(ranks, 2, false, node_ranks);
  if (kind == "torus2d") graph = lattice(ranks, 2, true, node_ranks);
  if (kind == "torus3d") graph = lattice(ranks, 3, true, node_ranks);
  if (kind == "hypercube") graph = rank_by_rank(ranks, hypercube);
  if (kind == "exponential") graph = rank_by_rank(ranks, exponential);
  if (kind == "star") graph = rank_by_rank(ranks, star);
  if (kind == "complete") graph = rank_by_rank(ranks, complete);
  if (kind == "random_regular") graph = random_regular(ranks, config.degree, config.seed);
  HALOGRAD_REQUIRE(!graph.empty(), "topology.kind is \"", kind,
                   "\"; expected ring, line, grid2d, torus2d, torus3d, hypercube, exponential, star, complete, "
                   "random_regular, one_peer_exponential, random_matching, rotating_exponential or file");
  graph = laid_out(graph, node_of_rank);
  tidy(graph);
  return graph;
}

bool is_undirected(const Graph& graph) {
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    for (const int neighbour : graph[rank]) {
      const std::vector<int>& back = graph[static_cast<std::size_t>(neighbour)];
      if (!std::binary_search(back.begin(), back.end(), static_cast<int>(rank))) return false;
    }
  }
  return true;
}

}  // namespace halograd
