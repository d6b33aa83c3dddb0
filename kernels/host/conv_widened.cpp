#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/pack.hpp"

namespace halograd::host {
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

struct WidenedScratch {
  float* inputs;
  float* relu_output;
  float* outputs;
  float* weights;
  float* bias;
  WidenedScratch(Scratch& scratch, const ConvShape& shape)
      : inputs(scratch.take<float>(images_at_once(shape) * image_inputs(shape))),
        relu_output(scratch.take<float>(images_at_once(shape) * image_inputs(shape))),
        outputs(scratch.take<float>(images_at_once(shape) * image_outputs(shape))),
        weights(scratch.take<float>(images_at_once(shape) < shape.batch ? shape.weights() : 0)),
        bias(scratch.take<float>(images_at_once(shape) < shape.batch ? shape.filters : 0)) {}
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

template <class From, class To>
void convert(const Exec& exec, const From* from, long count, To* to) {
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_widened", tasks, [&](int task) {
    const Share share(count, task, tasks);
    copy_values(from + share.begin, share.end - share.begin, to + share.begin);
  });
}

void add(const float* from, long count, float* to) {
  for (long i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

std::size_t widened_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  const WidenedScratch floats(scratch, shape);
  return scratch.used() + host::conv_workspace<float>(shape.with_batch(images_at_once(shape)));
}

void widened_forward(const Exec& exec, const ConvShape& shape, const Bfloat16* x, const float* weights,
                     const float* bias, bool relu, Bfloat16* y, std::byte* workspace) {
  Scratch pieces(workspace);
  const WidenedScratch floats(pieces, shape);
  for_some_images(shape, [&](const ConvShape& some, long first_input, long first_output) {
    convert(exec, x + first_input, some.batch * image_inputs(shape), floats.inputs);
    host::conv_forward<float>(exec, some, floats.inputs, weights, bias, relu, floats.outputs,
                              workspace + pieces.used());
    convert(exec, floats.outputs, some.batch * image_outputs(shape), y + first_output);
  });
}

void widened_backward_data(const Exec& exec, const ConvShape& shape, const Bfloat16* dy, const float* weights,
                           const Bfloat16* relu_output, Bfloat16* dx, bool accumulate, std::byte* workspace) {
  Scratch pieces(workspace);
  const WidenedScratch floats(pieces, shape);
  for_some_images(shape, [&](const ConvShape& some, long first_input, long first_output) {
    const long inputs = some.batch * image_inputs(shape);
    if (accumulate) convert(exec, dx + first_input, inputs, floats.inputs);
    if (relu_output != nullptr) convert(exec, relu_output + first_input, inputs, floats.relu_output);
    convert(exec, dy + first_output, some.batch * image_outputs(shape), floats.outputs);
    host::conv_backward_data<float>(exec, some, floats.outputs, weights,
                                    relu_output == nullptr ? nullptr : floats.relu_output, floats.inputs, accumulate,
                                    workspace + pieces.used());
    convert(exec, floats.inputs, inputs, dx + first_input);
  });
}

void widened_backward_weights(const Exec& exec, const ConvShape& shape, const Bfloat16* x, const Bfloat16* dy,
                              float* dweights, float* dbias, std::byte* workspace) {
  Scratch pieces(workspace);
  const WidenedScratch floats(pieces, shape);
  for_some_images(shape, [&](const ConvShape& some, long first_input, long first_output) {
    const bool first = first_input == 0;
    float* const bias = dbias == nullptr || first ? dbias : floats.bias;
    convert(exec, x + first_input, some.batch * image_inputs(shape), floats.inputs);
    convert(exec, dy + first_output, some.batch * image_outputs(shape), floats.outputs);
    host::conv_backward_weights<float>(exec, some, floats.inputs, floats.outputs, first ? dweights : floats.weights,
                                       bias, workspace + pieces.used());
    if (first) return;
    add(floats.weights, shape.weights(), dweights);
    if (bias != nullptr) add(bias, shape.filters, dbias);
  });
}

}  // namespace halograd::host
