#pragma once

#include <cstdint>

#include "config/training_config.hpp"

namespace halograd {

/// The factor on the learning rate at a step (0 is the first) of a training of epochs * steps_per_epoch steps. Linear
/// warm-up ends at factor 1; the cosine runs from there to final_factor at the end (Loshchilov, Hutter, 2017, without
/// restarts); milestones of "step" are epochs.
double schedule_factor(const ScheduleConfig& config, std::int64_t step, std::int64_t steps_per_epoch,
                       std::int64_t epochs);

}  // namespace halograd
