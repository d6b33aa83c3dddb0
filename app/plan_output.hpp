#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/recommendation.hpp"

namespace halograd {

/// Images per step over all ranks that a plan goes up to, and why.
struct BatchBound {
  int images = 0;
  std::string reason;
};

/// How often to write checkpoints, in seconds, and what failures then cost.
struct CheckpointPlan {
  double mttf = 0, bytes = 0, cost = 0;
  double young = 0, daly = 0;  ///< intervals
  long steps = 0;              ///< Daly's interval, of the picked candidate
  double lost = 0;             ///< share of the time, with that many steps
};

/// What `halograd plan` has found out, and how it is shown.
struct PlanOutput {
  const PlannedJob& job;
  const BatchBound& bound;
  const std::vector<Candidate>& candidates;
  const Candidate& pick;
  std::optional<CheckpointPlan> checkpoints;

  /// The candidates of the picked batch, the fastest first, and the run file's keys for the pick. All candidates of all
  /// batches where `all`, else the ten fastest that may be recommended.
  void print(bool all) const;
  /// One JSON object with all of it.
  void print_json() const;
};

}  // namespace halograd
