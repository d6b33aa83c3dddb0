#pragma once

#include <string>

#include "nn/network.hpp"

namespace halograd {

/// Gives `replica` the mean weights and statistics of a checkpoint. Throws Error where it is of another network.
void load_mean(const std::string& checkpoint, const Replica& replica);

}  // namespace halograd
