#include "nn/loss.hpp"

#include <algorithm>
#include <array>

#include "kernels/error.hpp"

namespace halograd {

Target target_of(const Shape& input, const Shape& outputs, const LossConfig& loss) {
  const int classes = loss.name == "binary_cross_entropy" ? 2 : outputs.channels;
  return {classes, outputs.pixels() > 1 ? input.pixels() : 1, loss};
}

int outputs_of(const Target& target) {
  if (target.target_values > 0) return target.target_values;
  return target.loss.name == "binary_cross_entropy" ? 1 : target.classes;
}

void require_outputs(const std::string& network, const std::string& layer, const Shape& outputs, const Shape& input,
                     const Target& target) {
  const std::string& loss = target.loss.name;
  const int classes = target.classes;
  HALOGRAD_REQUIRE(target.labels_per_image == 1 || target.labels_per_image == input.pixels(), "network '", network,
                   "': the data have ", target.labels_per_image, " labels for an image of ", to_string(input));
  const bool real = target.target_values > 0;
  HALOGRAD_REQUIRE(!real || loss == "mean_squared_error", "loss.name: ", loss,
                   " is of classes, but the data have real numbers as labels: mean_squared_error expected");
  HALOGRAD_REQUIRE(loss != "binary_cross_entropy" || classes == 2,
                   "loss.name: binary_cross_entropy is of labels 0 and 1, but the data have ", classes, " classes");
  const bool one = !real && (loss == "binary_cross_entropy" || (loss == "mean_squared_error" && outputs.channels == 1));
  const bool a_pixel = target.labels_per_image > 1;
  const int channels = one ? 1 : std::max(classes, target.target_values);
  const Shape expected(a_pixel ? input.extents() : std::array<int, 3>{1, 1, 1}, channels, outputs.dimensions);
  HALOGRAD_REQUIRE(outputs.extents() == expected.extents() && outputs.channels == expected.channels, "network '",
                   network, "': the last layer, ", layer, ", has outputs of shape ", to_string(outputs),
                   ", but the data have ", std::max(classes, target.target_values),
                   real ? " numbers a label" : " classes", a_pixel ? " and a label a pixel" : "", " (",
                   to_string(expected), " expected", one ? " by " + loss : "", ")");
}

void start_loss(const ExecutionSpace& exec, const Target& target, int batch, int channels, Vector<const float> outputs,
                Vector<const std::int32_t> labels, Vector<const float> targets, Vector<float> gradient,
                const LossMemory& memory) {
  const long rows = batch * target.labels_per_image;
  const LossBatch<float> of_batch{.rows = rows,
                                  .width = channels,
                                  .outputs = outputs,
                                  .labels = labels,
                                  .scale = 1.0 / static_cast<double>(rows),
                                  .gradient = gradient};
  if (target.loss.name == "binary_cross_entropy") {
    binary_cross_entropy(exec, of_batch, memory);
  } else if (target.target_values > 0) {
    mean_squared_error(exec, of_batch, targets, memory);
  } else if (target.loss.name == "mean_squared_error") {
    mean_squared_error(exec, of_batch, memory);
  } else {
    softmax_cross_entropy(exec, of_batch, target.loss.label_smoothing, memory);
  }
}

LossSum read_loss(const ExecutionSpace& exec, const Target& target, const LossMemory& memory) {
  LossSum sum = memory.read(exec);
  sum.loss /= static_cast<double>(target.labels_per_image);
  return sum;
}

}  // namespace halograd
