#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "config/config.hpp"
#include "graph/step_model.hpp"
#include "kernels/codec_speed.hpp"
#include "run/write.hpp"

/// What `halograd plan` recommends, by the step model and how fast replicas agree (docs/scaling.md, "Planning a job").
namespace halograd {

/// The measured step of one replica with `batch` images. For a group it includes the time of its own messages.
struct MeasuredBatch {
  int batch = 0;
  double step_seconds = 0;
  double memory_bytes = 0;  ///< of the replica's ranks on one node, without what averaging takes
  GroupTraffic group{};     ///< per rank; its time is part of step_seconds
};

/// What is planned for.
struct PlannedJob {
  int ranks = 1;
  int group_ranks = 1;  ///< ranks per replica; either whole groups share a node, or a group has whole nodes
  Machine machine;
  double node_memory = 0;  ///< bytes of a node; 0: not checked
  std::size_t parameters = 0;
  Unevenness uneven;
  int most_batch = 0;  ///< images per step over all replicas; 0: no bound
  std::vector<MeasuredBatch> batches;
  [[nodiscard]] int replicas() const { return ranks / group_ranks; }
};

/// What a way to average may cost in accuracy, the least first. Ways that are as fast are preferred in this order.
enum class Price {
  none,      ///< all ranks make the same step
  rounding,  ///< ... by gradients that are sent with a loss
  mixing,    ///< replicas differ, and are mixed in every step
  loss,      ///< weights are sent with a loss, or are older than a step
  sparse,    ///< few of the values are sent
  skipping,  ///< steps without an exchange lie between
};

/// A way to average, for one batch.
struct Candidate {
  int batch = 0;              ///< images per replica and step
  AveragerConfig averager{};  ///< with its period H, averager.every
  TopologyConfig topology{};
  bool has_graph = false;  ///< whether the averager exchanges along the topology
  int neighbours = 0;      ///< the most that a rank exchanges with at a time
  bool free = false;       ///< no rank waits for another
  Price price = Price::none;
  double mixing = 1;       ///< share of the distance between replicas that a step takes away, in the mean over steps
  double node_memory = 0;  ///< bytes that the ranks of a node take
  StepEstimate step;
  double images_per_second = 0;   ///< all ranks together
  const char* refusal = nullptr;  ///< why it is not recommended, however fast; null where it may be
};

/// Replicas are to agree at least as fast as on a ring of 16 ranks that exchange in each step, which trains as well as
/// an all-reduce does: its gap.
inline constexpr double least_mixing = 0.05 - 1e-9;  // a gap of 0.4, as computed, allows H = 8
/// The smallest batch that reaches this share of the best throughput is preferred.
inline constexpr double near_best = 0.95;
/// Ways of averaging that reach this share of the best throughput with the same batch count as equally fast.
inline constexpr double as_fast = 0.98;
/// A free pace is preferred where the ranks' computing spreads by this share or more, or the slowest rank is slower by
/// it.
inline constexpr double large_spread = 0.05;

/// Averagers with their codecs on the planned topologies (one of those that are alike), for every batch: each with the
/// least H, in powers of two, that is as fast as the largest H which its mixing allows. `speed_of` measures an
/// averager's codec. Throws Error where no batch was measured.
std::vector<Candidate> candidates(const PlannedJob& job,
                                  const std::function<CodecSpeed(const AveragerConfig&)>& speed_of);

/// A candidate of the smallest batch that is near the best throughput; among those that are equally fast with it, at a
/// free pace where `uneven` is large, then with the least price, in lockstep, with the fewest neighbours, with the
/// fewest bytes, with the fastest mixing. Throws Error where every candidate is refused.
const Candidate& recommended(const std::vector<Candidate>& candidates, const Unevenness& uneven);

/// The keys with which a run file asks for a candidate: training.batch for all `replicas`, averager.name and every,
/// topology.kind where the averager has a graph, and what else is not at its default.
std::vector<KeyValue> keys_of(const Candidate& candidate, int replicas);

}  // namespace halograd
