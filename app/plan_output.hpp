#pragma once

#include <string>
#include <vector>

#include "run/recommendation.hpp"

namespace halograd {

/// Images per step over all ranks that a plan goes up to, and why.
struct BatchBound {
  int images = 0;
  std::string reason;
};

/// What `halograd plan` has found out, and how it is shown.
struct PlanOutput {
  const PlannedJob& job;
  const BatchBound& bound;
  const std::vector<Candidate>& candidates;
  const Candidate& pick;

  /// The candidates of the picked batch, the fastest first, and the run file's keys for the pick. All candidates of all
  /// batches where `all`, else the ten fastest that may be recommended.
  void print(bool all) const;
  /// One JSON object with all of it.
  void print_json() const;
};

}  // namespace halograd
