#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/comm_config.hpp"
#include "graph/topology.hpp"
#include "support/table.hpp"

/// What an averager can be. A row stands in the file of its averager, and in the list of averager_table.cpp.
namespace halograd {

class Averager;
struct AveragerContext;

/// What the ranks send each other.
enum class Exchange { nothing, gradients, weights, pairs };  // pairs: weights, of two ranks at a time

/// The graphs that an averager takes.
enum class Graphs { none, any, fixed, fixed_undirected, changing };

/// Lockstep: in every step ranks wait for each other's values of that step. Bounded: a rank is at most a given number
/// of steps ahead. Free: no rank waits for another without end.
enum class Pace { lockstep, bounded, free };

/// A key of [averager] that asks for what not every averager does. Where it is not at its default:
struct AveragerOption {
  const char* key;
  bool fixed_graph = false;  ///< it needs neighbours that stay the same
  bool apart = false;        ///< it lets ranks run apart
  bool every_step = false;   ///< it needs what is sent in each step
  bool bounded = true;       ///< of staleness: it may be above 0, not only 0 or -1
};

/// The exchange whose bytes are asked for.
struct ExchangeSize {
  const AveragerConfig& averager;
  const Topology& topology;
  int rank;
  std::size_t length;  ///< of the weights
  std::size_t parts;   ///< 1, and the optimizer's buffers that are averaged with the weights
  int ranks_per_node;  ///< 1, unless the topology is one of nodes
};

struct AveragerRow {
  const char* name;
  Fact<const char*> meaning;
  Fact<std::unique_ptr<Averager> (*)(const AveragerContext&)> make;  ///< collective
  /// Bytes that the rank sends in one exchange, in the mean over exchanges.
  Fact<double (*)(const ExchangeSize&)> bytes_per_exchange;
  Fact<Exchange> exchanges;
  Fact<Graphs> graphs;
  Fact<bool> of_nodes;    ///< the graph's vertices are nodes, not ranks
  Fact<bool> out_degree;  ///< it takes weights that are only column-stochastic (topology.weights = "out_degree")
  Fact<Pace (*)(const AveragerConfig&)> pace;
  Fact<bool> always_under_way;  ///< between two steps something is on its way, so the replicas alone are not all
  Fact<bool> survives_losses;   ///< at a free pace, messages may be lost
  /// gradient_ready() moves a sum over all ranks, which travels beside the computation.
  Fact<bool> beside_gradient;
  Fact<bool> shares_gradients;  ///< the gradient becomes the same on all ranks: all make the optimizer's step, or none
  Fact<bool> local_steps;       ///< steps without an exchange may lie between two exchanges (averager.every)
  Fact<bool> device_windows;    ///< its halos may lie in device memory, where neighbours and weights stay as they are
  Fact<std::vector<AveragerOption>> options;
  /// Keys that adjust this averager. Others have no use for them, and let them stand in the run file.
  Fact<std::vector<const char*>> adjusted_by;
};

/// The rows in the order in which messages and documents list them.
const std::vector<AveragerRow>& averagers();
/// Throws Error for an unknown name.
const AveragerRow& row_of(const AveragerConfig& averager);

/// The row's option of that key; nullptr where it has none.
const AveragerOption* find_option(const AveragerRow& row, std::string_view key);
/// Whether the averager itself reads that key of [averager].
bool reads(const AveragerRow& row, std::string_view key);
/// Whether the exact average of averager.global_every reads it, beside whatever averager.
bool exact_average_reads(std::string_view key);

/// The averager's name and, where it has one, its order: "neighbour combine_then_adapt".
std::string title_of(const AveragerConfig& averager);
/// Whether halos of this averager on a graph that changes from step to step, or does not, may lie in device memory.
bool may_use_device_windows(const AveragerConfig& averager, bool graph_changes);

/// For rows: lockstep; free where averager.staleness is -1, else lockstep; nothing sent; the weights, as floats, to
/// each out-neighbour.
Pace always_lockstep(const AveragerConfig& averager);
Pace lockstep_or_free(const AveragerConfig& averager);
double sends_nothing(const ExchangeSize& size);
double sends_weights(const ExchangeSize& size);

/// averager.order.
struct OrderRow {
  const char* name;
  Fact<const char*> meaning;
  Fact<bool> combines_first;
};
inline constexpr OrderRow orders[] = {
    {"combine_then_adapt", "while the gradient is computed", true},
    {"adapt_then_combine", "after the step", false},
};
/// Throws Error for an unknown order.
bool combines_first(const AveragerConfig& averager);

/// averager.momentum.
struct MomentumRow {
  const char* name;
  Fact<const char*> meaning;
  Fact<bool> averaged;
};
inline constexpr MomentumRow momenta[] = {
    {"local", "the optimizer's buffers stay with their rank", false},
    {"averaged", "they are averaged with the weights", true},
};
/// Throws Error for an unknown choice.
bool averages_momentum(const AveragerConfig& averager);

}  // namespace halograd
