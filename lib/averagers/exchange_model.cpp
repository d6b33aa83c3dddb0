#include "averagers/exchange_model.hpp"

#include <algorithm>

#include "averagers/averager_table.hpp"
#include "averagers/averagers.hpp"
#include "averagers/codec_table.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr double copied = 2;  // read and written
constexpr double in_place = 2;
constexpr double own_share = copied + 1 + in_place;  // push-sum: weights before the update, the update done to x

/// Whether an exchange is a sum over all ranks, and not messages along the edges of a graph.
bool sums_over_ranks(const AveragerRow& row) {
  return row.graphs == Graphs::none;
}

/// Share of the computing, at its end, that an exchange runs beside.
double hidden_share(const AveragerConfig& averager) {
  const AveragerRow& row = row_of(averager);
  if (row.beside_gradient) return row.exchanges == Exchange::gradients ? 2. / 3 : 1;  // gradients: backward
  if (reads(row, "order")) return combines_first(averager) ? 1 : 0;
  return averager.overlap ? 1 : 0;
}

}  // namespace

ExchangeModel::ExchangeModel(const AveragerConfig& averager, const TopologyConfig& topology, const ModelledJob& job,
                             const CodecSpeed& coding)
    : averager_(averager),
      job_(job),
      node_ranks_(std::min(job.ranks, job.machine.ranks_per_node)),
      model_bytes_(sizeof(float) * static_cast<double>(job.parameters)),
      hidden_(hidden_share(averager)) {
  const AveragerRow& row = row_of(averager_);
  HALOGRAD_REQUIRE(row.exchanges == Exchange::gradients || row.exchanges == Exchange::weights, "averager.name is \"",
                   averager_.name, "\"; the step model knows averagers that exchange gradients or weights");
  const bool of_nodes = row.of_nodes;
  const int vertex_ranks = of_nodes ? job_.machine.ranks_per_node : 1;
  const int vertices = (job_.ranks + vertex_ranks - 1) / vertex_ranks;
  const std::vector<int> nodes = nodes_of_consecutive(vertices, of_nodes ? 1 : job_.machine.ranks_per_node);
  const Topology graph = make_topology(topology, vertices, of_nodes ? std::vector<int>() : nodes);
  changes_ = graph.dynamic() != nullptr;
  double bytes = 0, edges = 0;
  for (int rank = 0; rank < vertices * vertex_ranks; ++rank) {
    bytes += row.bytes_per_exchange(ExchangeSize{averager_, graph, rank, job_.parameters, 1, vertex_ranks});
  }
  for (int vertex = 0; vertex < vertices; ++vertex) edges += graph.mean_out(vertex);
  if (sums_over_ranks(row)) {
    edges = 2.0 * (job_.ranks - 1);  // what an all-reduce sends of each value, over all ranks
  } else {
    loads_ = edge_loads(graph, nodes);
  }
  message_bytes_ = edges > 0 ? bytes / edges : 0;
  if (is_coded(averager_)) {
    const double ranks = job_.ranks, of_a_sum = 2 * (ranks - 1) / ranks;
    const bool sums = sums_over_ranks(row);
    coding_seconds_ = static_cast<double>(job_.parameters) *
                      ((sums ? of_a_sum : 1) * coding.encode + (sums ? of_a_sum : most_neighbours()) * coding.decode);
  }
}

int ExchangeModel::most_neighbours() const {
  int most = loads_.empty() ? job_.ranks - 1 : 0;
  for (const EdgeLoad& load : loads_) most = std::max(most, load.most);
  return most;
}

double ExchangeModel::memory_traffic(int every) const {
  const AveragerRow& row = row_of(averager_);
  const double degree = most_neighbours();
  if (sums_over_ranks(row)) return copied + 1;  // the sum
  if (row.of_nodes) {
    // Into the node's memory, the node's mean, the mix between nodes, and back.
    return copied + (1 + 1.0 / node_ranks_) + (degree + in_place) / node_ranks_ + copied;
  }
  if (row.pace(averager_) == Pace::free) {
    const double copies = copied * degree;  // of what is sent, or of halos
    return row.always_under_way ? copies + degree + in_place : copies;
  }
  const double published = any_inside() ? copied : 0;
  // The mix, and with overlap a copy of what is under way.
  if (row.always_under_way) return published + own_share + degree + in_place + (averager_.overlap ? copied : 0);
  // Estimates of the neighbours and of itself.
  if (is_coded(averager_)) return published + degree + 1 + in_place;
  const bool with_the_optimizer = every == 1 && combines_first(averager_);  // in one pass
  return published + degree + (with_the_optimizer ? 0 : in_place);
}

double ExchangeModel::step_traffic() const {
  const AveragerRow& row = row_of(averager_);
  if (row.pace(averager_) != Pace::free) return 0;
  if (row.always_under_way) return own_share;
  const bool far = std::any_of(loads_.begin(), loads_.end(), [](const EdgeLoad& load) { return load.crossing > 0; });
  return (any_inside() ? copied : 0) + (far ? copied : 0) + most_neighbours();  // the newest weights; the mix
}

bool ExchangeModel::any_inside() const {
  return std::any_of(loads_.begin(), loads_.end(), [](const EdgeLoad& load) { return load.inside; });
}

ExchangeWork ExchangeModel::work(int every) const {
  ExchangeWork work{.message_bytes = message_bytes_,
                    .memory_bytes = memory_traffic(every) * model_bytes_,
                    .step_bytes = step_traffic() * model_bytes_,
                    .coding_seconds = coding_seconds_,
                    .every = every,
                    .hidden = hidden_};
  const AveragerRow& row = row_of(averager_);
  if (sums_over_ranks(row) && row.exchanges == Exchange::gradients) {
    work.last_bytes = message_bytes_ * std::min(1.0, bucket_floats / static_cast<double>(job_.parameters));
  }
  return work;
}

StepEstimate ExchangeModel::step(const StepWork& computing, int every) const {
  const AveragerRow& row = row_of(averager_);
  const ExchangeWork exchange = work(every);
  if (sums_over_ranks(row)) {
    const StepEstimate ring = ring_allreduce_step(job_.machine, computing, exchange, job_.ranks);
    if (is_coded(averager_)) return ring;  // MPI's own sums would not code
    const StepEstimate tree = tree_allreduce_step(job_.machine, computing, exchange, job_.ranks);
    return ring.step_seconds <= tree.step_seconds ? ring : tree;
  }
  if (row.pace(averager_) == Pace::free) return free_step(job_.machine, computing, exchange, loads_);
  if (!row.of_nodes) return lockstep_step(job_.machine, computing, exchange, loads_);
  // A node computes as long as its slowest rank; one of the nodes has the slowest of all.
  StepWork of_node = computing;
  of_node.compute_seconds *= slowest_of(node_ranks_, {computing.uneven.spread, 1});
  StepEstimate step = lockstep_step(job_.machine, of_node, exchange, loads_);
  step.bytes /= node_ranks_;
  step.efficiency = computing.compute_seconds / step.step_seconds;
  return step;
}

double ExchangeModel::node_memory() const {
  const AveragerRow& row = row_of(averager_);
  const double degree = most_neighbours();
  if (sums_over_ranks(row)) return node_ranks_ * model_bytes_;  // the sum
  if (row.of_nodes) return (node_ranks_ + 2 + job_.slots * degree) * model_bytes_;
  const bool free = row.pace(averager_) == Pace::free;
  if (row.always_under_way && free) {
    int crossing = 0;
    for (const EdgeLoad& load : loads_) crossing = std::max(crossing, load.crossing);
    // Weights before the update, a mailbox for each neighbour, and a copy of what is under way to other nodes.
    return (node_ranks_ * (1 + degree) + crossing) * model_bytes_;
  }
  if (changes_ || row.always_under_way) {
    const double own = row.always_under_way ? 1 + (averager_.overlap ? 1 : 0) : 0;  // before the update; under way
    return node_ranks_ * (own + job_.slots * degree) * model_bytes_;
  }
  double windows = 0;  // slots for a rank's own weights, which all of its node read, and for each halo from elsewhere
  for (const EdgeLoad& load : loads_) {
    windows = std::max(windows, job_.slots * ((load.inside ? node_ranks_ : 0) + load.crossing) * message_bytes_);
  }
  double copies = 0;
  if (is_coded(averager_)) copies = 1 + degree;  // estimates
  if (free) copies = degree + 2;                 // halos; weights under way, and the newest
  return windows + node_ranks_ * copies * model_bytes_;
}

}  // namespace halograd
