#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/elementwise.hpp"
#include "kernels/window_geometry.hpp"
#include "nn/layer.hpp"

/// What several layers need. Their factories are declared beside the table of types (layer_types.cpp).
namespace halograd {

/// dy to the gradient of an input whose values the output takes over one by one; nothing where they share a place.
template <class T>
void pass_gradient(const ExecutionSpace& exec, const LayerCall& call, std::size_t input) {
  const Vector<T> to = call.dx<T>(input);
  if (to.size() == 0 || to.data() == call.dy<T>().data()) return;
  copy_gradient<T>(exec, call.dy<T>(), to, call.accumulate[input]);
}

/// What a key says of the axes D, H, W of an input: one number stands for all axes that the input has, `otherwise` for
/// those that it does not have. Throws Error where there are more or fewer.
std::array<int, 3> along_axes(const LayerConfig& config, const char* key, const std::vector<int>& numbers,
                              const Shape& input, int otherwise);

/// The inputs that a box of a window's outputs sees, at least one along each axis.
Box seen_by(const WindowGeometry& windows, const Box& outputs);

/// The windows of a box of outputs alone, over `inputs`: what seen_by() says, or what goes on behind it. Throws Error
/// where one lies in the padding alone.
void restrict_to(WindowGeometry& windows, const Box& outputs, const Box& inputs);

/// "3x5": the last `dimensions` extents.
std::string extents_text(const std::array<int, 3>& extents, int dimensions);

}  // namespace halograd
