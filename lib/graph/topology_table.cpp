#include "graph/topology_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
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

template <int axes, bool periodic>
Graph lattice(const GraphRequest& request) {
  return lattice(request.ranks, axes, periodic, request.node_ranks);
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

template <std::vector<int> (*neighbours)(int, int)>
Graph rank_by_rank(const GraphRequest& request) {
  Graph graph;
  for (int rank = 0; rank < request.ranks; ++rank) graph.push_back(neighbours(rank, request.ranks));
  return graph;
}

/// The union of degree / 2 random cycles through all ranks: connected, and an expander with high probability (Friedman,
/// 2008, for the permutation model). Where cycles share an edge, its ranks have a lower degree.
Graph random_regular(const GraphRequest& request) {
  const int ranks = request.ranks, degree = request.config.degree;
  const std::uint64_t seed = request.config.seed;
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

/// All ranks in an order that follows from the two numbers.
std::vector<int> shuffled(int ranks, std::uint64_t seed, std::int64_t number) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t key = random_bits(seed, static_cast<std::uint64_t>(number));
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random_bits(key, left) % left]);
  }
  return order;
}

/// ceil(log2 P), at least 1.
std::int64_t hops(int ranks) {
  std::int64_t count = 1;
  while ((std::int64_t{1} << count) < ranks) ++count;
  return count;
}

/// Each rank takes from the rank whose position is `hop` before its own.
std::vector<int> hop_back(const std::vector<int>& rank_at, std::int64_t hop) {
  const auto ranks = static_cast<std::int64_t>(rank_at.size());
  std::vector<int> sources(rank_at.size());
  for (std::int64_t position = 0; position < ranks; ++position) {
    sources[static_cast<std::size_t>(rank_at[static_cast<std::size_t>(position)])] =
        rank_at[static_cast<std::size_t>((position + ranks - hop % ranks) % ranks)];
  }
  return sources;
}

/// i takes from i - 2^k mod P in step k mod ceil(log2 P) (Assran et al., 2019; Ying et al., 2021).
std::vector<int> one_peer_exponential(const StepRequest& request) {
  return hop_back(request.rank_at, std::int64_t{1} << (request.step % hops(static_cast<int>(request.rank_at.size()))));
}

/// Random pairs, of which an odd rank is left over (Boyd et al., 2006).
std::vector<int> random_matching(const StepRequest& request) {
  const std::vector<int> order = shuffled(static_cast<int>(request.rank_at.size()), request.seed, request.step);
  std::vector<int> sources(order.size());
  std::iota(sources.begin(), sources.end(), 0);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    sources[static_cast<std::size_t>(order[i])] = order[i + 1];
    sources[static_cast<std::size_t>(order[i + 1])] = order[i];
  }
  return sources;
}

/// one_peer_exponential, on positions that are dealt anew after each round of ceil(log2 P) steps (GossipGraD, Daily et
/// al., 2018).
std::vector<int> rotating_exponential(const StepRequest& request) {
  const auto ranks = static_cast<int>(request.rank_at.size());
  const std::int64_t round = request.step / hops(ranks), hop = request.step % hops(ranks);
  return hop_back(shuffled(ranks, request.seed, round), std::int64_t{1} << hop);
}

}  // namespace

const std::vector<TopologyRow>& topologies() {
  using Keys = std::vector<const char*>;
  constexpr int any = std::numeric_limits<int>::max();
  constexpr bool both_ways = false, one_way = true;
  const auto stays = [](const char* name, const char* meaning, Graph (*graph)(const GraphRequest&), bool is_one_way,
                        const Keys& keys, int slow_above, int most_planned, int most_simulated) {
    return TopologyRow{name,       meaning, graph, nullptr,    nullptr,      false,
                       is_one_way, false,   keys,  slow_above, most_planned, most_simulated};
  };
  const auto changes = [](const char* name, const char* meaning, std::vector<int> (*sources)(const StepRequest&),
                          std::int64_t (*period)(int), bool pauses_one, const Keys& keys, int most_planned) {
    return TopologyRow{name, meaning, nullptr, sources, period, pauses_one, one_way, false, keys, 0, most_planned, 0};
  };
  static const std::vector<TopologyRow> rows{
      stays("ring", "i-1 and i+1", lattice<1, true>, both_ways, {}, 16, any, any),
      stays("line", "a ring without the wrap-around", lattice<1, false>, both_ways, {}, 0, 0, any),
      stays("grid2d", "left, right, up and down inside a grid", lattice<2, false>, both_ways, {}, 0, 0, any),
      stays("torus2d", "a grid with wrap-around", lattice<2, true>, both_ways, {}, 0, any, any),
      stays("torus3d", "along three axes, with wrap-around", lattice<3, true>, both_ways, {}, 0, any, any),
      stays("hypercube", "labels that differ in one bit", rank_by_rank<hypercube>, both_ways, {}, 0, any, any),
      stays("exponential", "i-1, i-2, i-4, ...", rank_by_rank<exponential>, one_way, {}, 0, any, any),
      stays("star", "rank 0, for rank 0 all others", rank_by_rank<star>, both_ways, {}, 0, 0, any),
      stays("complete", "all others", rank_by_rank<complete>, both_ways, {}, 0, 64, 1024),
      stays("random_regular", "degree / 2 random cycles through all ranks", random_regular, both_ways,
            {"degree", "seed"}, 0, 0, any),
      changes("one_peer_exponential", "i - 2^k in step k", one_peer_exponential, hops, false, {}, any),
      changes("random_matching", "random pairs in each step", random_matching, nullptr, true, {"seed"}, 0),
      changes("rotating_exponential", "one_peer_exponential on positions that are dealt anew after each round",
              rotating_exponential, nullptr, false, {"seed"}, 0),
      TopologyRow{"file", "the graph of topology.file", nullptr, nullptr, nullptr, false, both_ways, true, Keys{"file"},
                  0, 0, 0},
  };
  return rows;
}

const TopologyRow& row_of(const TopologyConfig& topology) {
  return row_of(topologies(), topology.kind, "topology.kind");
}

const std::vector<WeightRow>& weight_rules() {
  static const std::vector<WeightRow> rows{
      {"automatic", "the file's, else metropolis_hastings where every edge goes both ways, else uniform",
       automatic_weights, true},
      {"uniform", "1 / (degree + 1)", uniform_weights, false},
      {"metropolis_hastings", "1 / (1 + the larger degree of the two), for graphs whose edges go both ways",
       metropolis_hastings_weights, false},
      {"out_degree", "1 / (out-degree of the sender + 1), for push_sum on any directed graph", nullptr, false},
  };
  return rows;
}

const WeightRow& weight_row_of(const std::string& rule) {
  return row_of(weight_rules(), rule, "topology.weights");
}

}  // namespace halograd
