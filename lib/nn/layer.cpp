#include "nn/layer.hpp"

#include <algorithm>
#include <span>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"
#include "support/text.hpp"

namespace halograd {

std::array<int, 3> along_axes(const LayerConfig& config, const char* key, const std::vector<int>& numbers,
                              const Shape& input, int otherwise) {
  const auto all = along_axes(numbers, input.dimensions, otherwise);
  HALOGRAD_REQUIRE(all.has_value(), "layer ", config.name, " (", config.type, "): ", key, " has ", numbers.size(),
                   " numbers, expected one, or one for each of the ", input.dimensions,
                   " spatial axes of its input of ", to_string(input));
  return *all;
}

Box seen_by(const WindowGeometry& windows, const Box& outputs) {
  Box box;
  for (int axis = 0; axis < 3; ++axis) {
    const WindowAxis window = windows.axis(axis);
    const int first = outputs.begin[axis] * window.stride + window.offset(0);
    const int last = (outputs.end[axis] - 1) * window.stride + window.offset(window.kernel - 1);
    box.begin[axis] = std::clamp(first, 0, window.extent - 1);
    box.end[axis] = std::clamp(last, box.begin[axis], window.extent - 1) + 1;
  }
  return box;
}

void restrict_to(WindowGeometry& windows, const Box& outputs, const Box& inputs) {
  const std::array<int, 3> counts = outputs.extents();
  for (int axis = 0; axis < 3; ++axis) {
    const WindowAxis whole = windows.axis(axis);
    windows.extent[axis] = inputs.extents()[axis];
    windows.padding[axis] = inputs.begin[axis] - (outputs.begin[axis] * whole.stride + whole.offset(0));
    windows.more_behind[axis] = 0;
    HALOGRAD_REQUIRE(windows.padding[axis] >= 0, "a window of output ", outputs.begin[axis], " along axis ", axis,
                     " lies in the padding alone: such images cannot be divided among ranks");
    windows.more_behind[axis] = static_cast<int>(windows.extent_for(axis, counts[axis]) - windows.extent[axis]);
  }
}

std::string extents_text(const std::array<int, 3>& extents, int dimensions) {
  return listed(std::span(extents).last(static_cast<std::size_t>(dimensions)), "x");
}

std::unique_ptr<Layer> make_layer(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue) {
  return type_of(config).make(config, inputs, epilogue);
}

}  // namespace halograd
