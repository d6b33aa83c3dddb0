#pragma once

#include <string>
#include <vector>

#include "graph/step_model.hpp"

/// What `halograd plan` recommends, by the step model and the spectral gap (docs/scaling.md, "Planning a job").
namespace halograd {

/// One rank alone with `batch` images per step.
struct MeasuredBatch {
  int batch = 0;
  double step_seconds = 0;
  double memory_bytes = 0;  ///< without halos
};

struct Cluster {
  int ranks = 1;
  Machine machine;
  double node_memory = 0;  ///< bytes; 0: not looked at
};

/// A way to average on a topology, for one batch.
struct Candidate {
  int batch = 0;
  std::string averager;  ///< neighbour, ring_allreduce, tree_allreduce
  std::string topology;  ///< of neighbour
  int every = 1;         ///< steps from exchange to exchange (H)
  double gap = 1;
  double node_memory = 0;  ///< bytes that the ranks of a node take
  bool fits = true;
  StepEstimate step;
  double images_per_second = 0;  ///< of all ranks
  /// Whether weights go to the neighbours on a topology, and not gradients to all ranks.
  [[nodiscard]] bool on_topology() const { return !topology.empty(); }
  /// How much of the distance between replicas a step takes away.
  [[nodiscard]] double mixing() const { return gap / every; }
};

/// Replicas are to agree at least as fast as on a ring of 16 ranks that exchange in each step, which trains as well as
/// an all-reduce does: its gap.
inline constexpr double least_mixing = 0.05 - 1e-9;  // a gap of 0.4, as computed, allows H = 8
/// A smaller batch, or a topology that mixes better, is preferred to so much of the throughput.
inline constexpr double near_best = 0.95;

/// Every topology with the least H for which the exchange costs at most 2 %, or the most that its gap allows, for every
/// batch; and the all-reduces.
std::vector<Candidate> candidates(const Cluster& cluster, double model_bytes, const std::vector<MeasuredBatch>& batches,
                                  int slots);

/// The pick among the neighbour candidates that fit into memory, mix well enough and come near the best throughput: the
/// smallest batch, and with it the graph that mixes best. Throws Error where none fits.
Candidate recommended(const std::vector<Candidate>& candidates);

}  // namespace halograd
