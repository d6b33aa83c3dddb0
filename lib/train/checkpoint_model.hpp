#pragma once

#include <string>

#include "io/checkpoint.hpp"
#include "nn/network.hpp"

/// Between a network and a checkpoint of it.
namespace halograd {

/// Gives `replica` the mean weights and statistics of a checkpoint. Throws Error where they differ in length.
void load_mean(const std::string& checkpoint, const Replica& replica);

}  // namespace halograd
