#pragma once

#include "config/training_config.hpp"
#include "support/table.hpp"

/// The keys of [training] that choose between two ways, a table each, and which of the two it is.
namespace halograd {

struct Choice {
  const char* name;
  Fact<bool> answer;  ///< of the function below the table
};

inline constexpr Choice share_choices[] = {{"equal", false}, {"measured", true}};
/// Whether ranks get shares of a batch in proportion to their speed. This and those below throw Error for a name that
/// is not in the table.
inline bool shares_by_speed(const TrainingConfig& training) {
  return row_of(share_choices, training.shares, "training.shares").answer;
}

inline constexpr Choice resumed_optimizer_choices[] = {{"mean", false}, {"reset", true}};
/// Whether the optimizer's state begins at zero where a run is resumed on another number of ranks.
inline bool resets_optimizer(const TrainingConfig& training) {
  return row_of(resumed_optimizer_choices, training.resumed_optimizer, "training.resumed_optimizer").answer;
}

inline constexpr Choice non_finite_choices[] = {{"stop", false}, {"skip", true}};
/// Whether a rank skips an update that is not finite, and the run goes on.
inline bool skips_non_finite(const TrainingConfig& training) {
  return row_of(non_finite_choices, training.non_finite, "training.non_finite").answer;
}

inline constexpr Choice step_recording_choices[] = {{"auto", true}, {"off", false}};
/// Whether a step is recorded on devices where that can be done.
inline bool records_steps(const TrainingConfig& training) {
  return row_of(step_recording_choices, training.step_recording, "training.step_recording").answer;
}

}  // namespace halograd
