#include "nn/loss.hpp"

#include <algorithm>
#include <array>

#include "kernels/error.hpp"

namespace halograd {

Target target_of(const Shape& input, const Shape& outputs, const LossConfig& loss) {
  const int classes = *loss_named(loss.name).outputs == LossOutputs::one ? 2 : outputs.channels;
  return {classes, outputs.pixels() > 1 ? input.pixels() : 1, loss};
}

int outputs_of(const Target& target) {
  if (target.target_values > 0) return target.target_values;
  return *loss_named(target.loss.name).outputs == LossOutputs::one ? 1 : target.classes;
}

void require_outputs(const std::string& network, const std::string& layer, const Shape& outputs, const Shape& input,
                     const Target& target) {
  const Loss& loss = loss_named(target.loss.name);
  const int classes = target.classes;
  HALOGRAD_REQUIRE(target.labels_per_image == 1 || target.labels_per_image == input.pixels(), "network '", network,
                   "': the data have ", target.labels_per_image, " labels for an image of ", to_string(input));
  const bool real = target.target_values > 0;
  HALOGRAD_REQUIRE(!real || loss.takes_real_labels, "loss.name: ", loss.name,
                   " needs classes, but the data have real numbers as labels; expected mean_squared_error");
  HALOGRAD_REQUIRE(*loss.outputs != LossOutputs::one || classes == 2, "loss.name: ", loss.name,
                   " needs labels 0 and 1, but the data have ", classes, " classes");
  const bool may_be_one = *loss.outputs == LossOutputs::per_class_or_one && outputs.channels == 1;
  const bool one = !real && (*loss.outputs == LossOutputs::one || may_be_one);
  const bool a_pixel = target.labels_per_image > 1;
  const int channels = one ? 1 : std::max(classes, target.target_values);
  const Shape expected(a_pixel ? input.extents() : std::array<int, 3>{1, 1, 1}, channels, outputs.dimensions);
  HALOGRAD_REQUIRE(outputs.extents() == expected.extents() && outputs.channels == expected.channels, "network '",
                   network, "': the last layer, ", layer, ", has outputs of shape ", to_string(outputs),
                   ", but the data have ", std::max(classes, target.target_values),
                   real ? " numbers per label" : " classes", a_pixel ? " and one label per pixel" : "", " (",
                   to_string(expected), " expected", one ? " by " + target.loss.name : "", ")");
}

std::int32_t predicted_class(std::span<const float> scores) {
  if (scores.size() == 1) return scores[0] > 0.5F ? 1 : 0;
  return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

LossSum read_loss(const ExecutionSpace& exec, const Target& target, const LossMemory& memory) {
  LossSum sum = memory.read(exec);
  sum.loss /= static_cast<double>(target.labels_per_image);
  return sum;
}

}  // namespace halograd
