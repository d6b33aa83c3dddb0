#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "config/network_config.hpp"
#include "kernels/loss.hpp"
#include "kernels/shape.hpp"
#include "nn/losses.hpp"

namespace halograd {

/// What a network's outputs are compared with: one label per image, or as many as it has pixels, and how. A label is a
/// class, or `target_values` real numbers.
struct Target {
  int classes = 0;
  long labels_per_image = 1;
  LossConfig loss;
  int target_values = 0;  ///< above 0: `classes` is 0
  // NOLINTNEXTLINE(google-explicit-constructor): classes alone are a target
  Target(int c, long labels = 1, LossConfig l = {}) : classes(c), labels_per_image(labels), loss(std::move(l)) {}
};

/// The target that outputs of this shape fit, for a network whose data are not at hand.
Target target_of(const Shape& input, const Shape& outputs, const LossConfig& loss);

/// The channels that a reference network ends in for this target.
int outputs_of(const Target& target);

/// Throws Error where the outputs of a network's last layer do not fit the loss and the labels (docs/run-files.md).
void require_outputs(const std::string& network, const std::string& layer, const Shape& outputs, const Shape& input,
                     const Target& target);

/// What a loss is computed from.
struct LossCall {
  const ExecutionSpace& exec;
  LossBatch<float> batch;
  bool real_labels;
  Vector<const float> targets;  ///< (rows, width), where the labels are real numbers
  double label_smoothing;       ///< share of the target that is spread over all classes
  const LossMemory& memory;
};

/// Outputs that become predictions, in place.
struct PredictionCall {
  const ExecutionSpace& exec;
  long rows;
  int width;
  Vector<float> values;  ///< (rows, width)
};

/// The class that the scores of one label say: the first of the largest; of a single score, whether it is above 1/2.
std::int32_t predicted_class(std::span<const float> scores);

/// What a loss leaves in `memory`, summed over the images; an image's is the mean over its labels. Fences.
LossSum read_loss(const ExecutionSpace& exec, const Target& target, const LossMemory& memory);

}  // namespace halograd
