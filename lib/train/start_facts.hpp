#pragma once

#include "train/trainer.hpp"

namespace halograd {

/// The start table: what this training is about to do, on what, and at what cost. Collective.
StartFacts start_facts(const TrainingSetup& setup);

}  // namespace halograd
