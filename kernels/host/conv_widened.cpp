#include "kernels/host/conv_widened.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/host/blocking.hpp"

namespace halograd::host::widened {
namespace {

long image_inputs(const ConvShape& shape) {
  return shape.with_batch(1).in_pixels() * shape.channels;
}
long image_outputs(const ConvShape& shape) {
  return shape.with_batch(1).out_pixels() * shape.filters;
}

/// Values that are widened at a time: what caches hold, but no less than the weights that each time costs again.
int images_at_once(const ConvShape& shape) {
  constexpr long cached_values = 512L * 1024;
  const long values = std::max(cached_values, 4 * shape.weights());
  return static_cast<int>(
      std::clamp<long>(values / (image_inputs(shape) + image_outputs(shape)), 1, std::max(shape.batch, 1)));
}

/// The shape of some images, and their values as floats.
struct Widened {
  Vector<float> inputs, relu_output, outputs, weights, bias;
  Vector<std::byte> workspace;
  std::size_t bytes;

  explicit Widened(const ConvShape& shape, const Vector<std::byte>& memory = {}) {
    const int images = images_at_once(shape);
    Scratch scratch(memory.data());
    const auto take = [&](long count) { return Vector<float>(scratch.take<float>(count), count); };
    inputs = take(images * image_inputs(shape));
    relu_output = take(images * image_inputs(shape));
    outputs = take(images * image_outputs(shape));
    weights = take(images < shape.batch ? shape.weights() : 0);
    bias = take(images < shape.batch ? shape.filters : 0);
    const std::size_t needed = halograd::conv_workspace<float>(shape.with_batch(images));
    bytes = scratch.used() + needed;
    if (memory.data() != nullptr) workspace = slice(memory, scratch.used(), needed);
  }
};

/// Calls body(shape of some images, first value of their inputs, of their outputs) for all images.
template <class Body>
void for_some_images(const ConvShape& shape, const Body& body) {
  const int images = images_at_once(shape);
  for (int first = 0; first < shape.batch; first += images) {
    body(shape.with_batch(std::min(images, shape.batch - first)), first * image_inputs(shape),
         first * image_outputs(shape));
  }
}

Vector<const float> widen(const ExecutionSpace& exec, const Vector<const Bfloat16>& from, long first,
                          const Vector<float>& to, long count) {
  const Vector<float> result = slice(to, 0, static_cast<std::size_t>(count));
  convert_values<Bfloat16, float>(exec, slice(from, static_cast<std::size_t>(first), result.size()), result);
  return result;
}

void narrow(const ExecutionSpace& exec, const Vector<const float>& from, const Vector<Bfloat16>& to, long first) {
  convert_values<float, Bfloat16>(exec, from, slice(to, static_cast<std::size_t>(first), from.size()));
}

}  // namespace

std::size_t conv_workspace(const ConvShape& shape) {
  return Widened(shape).bytes;
}

void forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const Bfloat16> x, Vector<const float> weights,
             Vector<const float> bias, bool relu, Vector<Bfloat16> y, Vector<std::byte> workspace) {
  const Widened floats(shape, workspace);
  for_some_images(shape, [&](const ConvShape& some, long first_input, long first_output) {
    const long inputs = some.batch * image_inputs(shape), outputs = some.batch * image_outputs(shape);
    const Vector<float> sums = slice(floats.outputs, 0, static_cast<std::size_t>(outputs));
    conv_forward<float>(exec, some, widen(exec, x, first_input, floats.inputs, inputs), weights, bias, relu, sums,
                        floats.workspace);
    narrow(exec, sums, y, first_output);
  });
}

void backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const Bfloat16> dy,
                   Vector<const float> weights, Vector<const Bfloat16> relu_output, Vector<Bfloat16> dx,
                   bool accumulate, Vector<std::byte> workspace) {
  const Widened floats(shape, workspace);
  for_some_images(shape, [&](const ConvShape& some, long first_input, long first_output) {
    const long inputs = some.batch * image_inputs(shape), outputs = some.batch * image_outputs(shape);
    const Vector<float> sums = slice(floats.inputs, 0, static_cast<std::size_t>(inputs));
    if (accumulate) widen(exec, dx, first_input, floats.inputs, inputs);
    Vector<const float> mask;
    if (relu_output.size() > 0) mask = widen(exec, relu_output, first_input, floats.relu_output, inputs);
    conv_backward_data<float>(exec, some, widen(exec, dy, first_output, floats.outputs, outputs), weights, mask, sums,
                              accumulate, floats.workspace);
    narrow(exec, sums, dx, first_input);
  });
}

void backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const Bfloat16> x,
                      Vector<const Bfloat16> dy, Vector<float> dweights, Vector<float> dbias,
                      Vector<std::byte> workspace) {
  const Widened floats(shape, workspace);
  for_some_images(shape, [&](const ConvShape& some, long first_input, long first_output) {
    const bool first = first_input == 0;
    const Vector<float> bias = dbias.size() == 0 || first ? dbias : floats.bias;
    const Vector<float> sums = first ? dweights : floats.weights;
    conv_backward_weights<float>(
        exec, some, widen(exec, x, first_input, floats.inputs, some.batch * image_inputs(shape)),
        widen(exec, dy, first_output, floats.outputs, some.batch * image_outputs(shape)), sums, bias, floats.workspace);
    if (first) return;
    copy_gradient<float>(exec, sums, dweights, true);
    if (bias.size() > 0) copy_gradient<float>(exec, bias, dbias, true);
  });
}

}  // namespace halograd::host::widened
