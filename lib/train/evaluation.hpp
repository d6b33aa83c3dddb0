#pragma once

#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "kernels/types.hpp"
#include "nn/network.hpp"

namespace halograd {

/// Loss and accuracy over a set of images.
struct Evaluation {
  double loss_sum = 0;
  double correct = 0;
  double images = 0;
  [[nodiscard]] double loss() const { return images > 0 ? loss_sum / images : 0; }
  [[nodiscard]] double accuracy() const { return images > 0 ? correct / images : 0; }
};

/// Passes all that the loader deals to this rank through the network, without training.
Evaluation evaluate(const ExecutionSpace& exec, Network& network, const Replica& replica, Loader& loader);

}  // namespace halograd
