#include "kernels/host/conv.hpp"

#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/pack.hpp"

/// Chooses among the direct convolutions, and turns some shapes into others that suit them better.
namespace halograd::host {
namespace {

ConvShape with_padded_images(ConvShape shape) {
  for (int axis = 0; axis < 3; ++axis) {
    // windows that end before the image does still do
    const int behind = std::max(0, shape.padding[axis] + shape.more_behind[axis]);
    shape.more_behind[axis] += shape.padding[axis] - behind;
    shape.extent[axis] += shape.padding[axis] + behind;
  }
  shape.padding = {0, 0, 0};
  return shape;
}

/// Whether images of few channels are copied with their padding around them: the taps of a row are one stretch of
/// memory only where none is outside the image. Images stored as bf16, with padding or without, are widened on the way.
template <class T>
bool copies_images(const ConvShape& shape) {
  if (shape.channels > 4 || shape.groups != 1) return false;
  return std::is_same_v<T, Bfloat16> ? is_narrow(with_padded_images(shape)) : shape.padded();
}

template <class T>
Wide<T>* take_padded(Scratch& scratch, const ConvShape& shape) {
  return scratch.take<Wide<T>>(with_padded_images(shape).in_pixels() * shape.channels);
}

template <class T>
const Wide<T>* padded_images(const Exec& exec, const ConvShape& shape, const T* x, Scratch& scratch) {
  Wide<T>* const padded = take_padded<T>(scratch, shape);
  const ConvShape to = with_padded_images(shape);
  const long rows = static_cast<long>(shape.batch) * to.extent[0] * to.extent[1];
  const long row = static_cast<long>(shape.extent[2]) * shape.channels;
  const long edge = static_cast<long>(shape.padding[2]) * shape.channels;
  const long padded_row = static_cast<long>(to.extent[2]) * shape.channels;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_pad_images", tasks, [&](int task) {
    const Share share(rows, task, tasks);
    for (long r = share.begin; r < share.end; ++r) {
      const long h = r % to.extent[1] - shape.padding[1];
      const long d = r / to.extent[1] % to.extent[0] - shape.padding[0];
      const long n = r / to.extent[1] / to.extent[0];
      Wide<T>* const at = padded + r * padded_row;
      if (h < 0 || h >= shape.extent[1] || d < 0 || d >= shape.extent[0]) {
        std::fill_n(at, padded_row, Wide<T>(0));
        continue;
      }
      const T* const from = x + ((n * shape.extent[0] + d) * shape.extent[1] + h) * row;
      std::fill_n(at, edge, Wide<T>(0));
      copy_values(from, row, at + edge);
      std::fill(at + edge + row, at + padded_row, Wide<T>(0));
    }
  });
  return padded;
}

/// A dense layer: one product of matrices, dx (N, C) = dy (N, K) weights^T.
bool is_dense(const ConvShape& shape) {
  const ConvShape::Spatial one{1, 1, 1};
  return shape.groups == 1 && shape.extent == one && shape.kernel == one && !shape.padded();
}
/// The largest batch for which dx^T = weights dy^T is faster: dy and dx are then smaller than the weights that the
/// other form would have to transpose.
long largest_swapped_batch(const ConvShape& shape) {
  if (!is_dense(shape)) return 0;
  return static_cast<long>(shape.channels) * shape.filters / (2L * (shape.channels + shape.filters));
}
ConvShape with_swapped_operands(const ConvShape& shape) {
  ConvShape swapped;
  swapped.batch = shape.channels;
  swapped.channels = shape.batch;
  swapped.filters = shape.filters;
  return swapped;
}

/// dx (N, C) (+)= from (C, N), and the ReLU that x came from.
template <class T>
void store_transposed(const Exec& exec, const ConvShape& shape, const T* from, const T* relu_output, T* dx,
                      bool accumulate) {
  constexpr int width = 16;
  const long blocks = (shape.channels + width - 1) / width;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_transpose", tasks, [&](int task) {
    const Share share(blocks, task, tasks);
    for (long block = share.begin; block < share.end; ++block) {
      const long first = block * width;
      const int count = static_cast<int>(std::min<long>(width, shape.channels - first));
      for (long n = 0; n < shape.batch; ++n) {
        const long at = n * shape.channels + first;
        for (int c = 0; c < count; ++c) {
          T value = from[(first + c) * shape.batch + n];
          if (accumulate) value += dx[at + c];
          dx[at + c] = relu_output != nullptr && !(relu_output[at + c] > T(0)) ? T(0) : value;
        }
      }
    }
  });
}

template <class T>
T* take_transposed(Scratch& scratch, const ConvShape& shape) {
  return scratch.take<T>(static_cast<long>(shape.batch) * shape.channels);
}

}  // namespace

template <class T>
std::size_t conv_workspace(const ConvShape& shape) {
  if (is_depthwise(shape)) return depthwise_workspace<T>(shape);
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (!copies_images<T>(shape)) return widened_workspace(shape);
    Scratch scratch(nullptr);
    take_padded<T>(scratch, shape);
    const ConvShape padded = with_padded_images(shape);
    return std::max(widened_workspace(shape),
                    scratch.used() + std::max(narrow_workspace<T>(padded), narrow_weights_workspace<T>(padded)));
  } else {
    std::size_t bytes = std::max(gather_workspace<T>(shape), outer_workspace<T>(shape));
    if (is_narrow(shape)) bytes = std::max(bytes, narrow_workspace<T>(shape));
    if (has_narrow_weights(shape)) bytes = std::max(bytes, narrow_weights_workspace<T>(shape));
    if (has_strided_data(shape)) bytes = std::max(bytes, strided_workspace<T>(shape));
    if (copies_images<T>(shape)) {
      Scratch scratch(nullptr);
      take_padded<T>(scratch, shape);
      bytes = std::max(bytes, scratch.used() + host::conv_workspace<T>(with_padded_images(shape)));
    }
    const ConvShape swappable =
        shape.with_batch(static_cast<int>(std::min<long>(shape.batch, largest_swapped_batch(shape))));
    if (swappable.batch > 0) {
      Scratch scratch(nullptr);
      take_transposed<T>(scratch, swappable);
      bytes = std::max(bytes, scratch.used() + gather_workspace<T>(with_swapped_operands(swappable)));
    }
    return bytes;
  }
}

template <class T>
void conv_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights, const Wide<T>* bias,
                  bool relu, T* y, std::byte* workspace) {
  if (is_depthwise(shape)) return depthwise_forward(exec, shape, x, weights, bias, relu, y, workspace);
  if (copies_images<T>(shape)) {
    Scratch scratch(workspace);
    const Wide<T>* const padded = padded_images(exec, shape, x, scratch);
    const ConvShape larger = with_padded_images(shape);
    std::byte* const rest = workspace + scratch.used();
    if (is_narrow(larger)) return narrow_forward<T>(exec, larger, padded, weights, bias, relu, y, rest);
    if constexpr (!std::is_same_v<T, Bfloat16>) {
      return gather_forward(exec, larger, padded, weights, bias, relu, y, rest);
    }
  }
  if constexpr (std::is_same_v<T, Bfloat16>) {
    widened_forward(exec, shape, x, weights, bias, relu, y, workspace);
  } else {
    const auto pass = is_narrow(shape) ? narrow_forward<T> : gather_forward<T>;
    pass(exec, shape, x, weights, bias, relu, y, workspace);
  }
}

template <class T>
void conv_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                        const T* relu_output, T* dx, bool accumulate, std::byte* workspace) {
  if (is_depthwise(shape)) {
    return depthwise_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate, workspace);
  }
  if constexpr (std::is_same_v<T, Bfloat16>) {
    widened_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate, workspace);
  } else {
    if (has_strided_data(shape)) {
      return strided_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate, workspace);
    }
    if (shape.batch > largest_swapped_batch(shape)) {
      return gather_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate, workspace);
    }
    Scratch scratch(workspace);
    T* const transposed = take_transposed<T>(scratch, shape);
    gather_backward_data<T>(exec, with_swapped_operands(shape), weights, dy, nullptr, transposed, false,
                            workspace + scratch.used());
    store_transposed(exec, shape, transposed, relu_output, dx, accumulate);
  }
}

template <class T>
void conv_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                           Wide<T>* dbias, std::byte* workspace) {
  if (is_depthwise(shape)) return depthwise_backward_weights(exec, shape, x, dy, dweights, dbias, workspace);
  if (copies_images<T>(shape)) {
    Scratch scratch(workspace);
    const Wide<T>* const padded = padded_images(exec, shape, x, scratch);
    const ConvShape larger = with_padded_images(shape);
    std::byte* const rest = workspace + scratch.used();
    if (has_narrow_weights(larger)) return narrow_backward_weights<T>(exec, larger, padded, dy, dweights, dbias, rest);
    if constexpr (!std::is_same_v<T, Bfloat16>) {
      return outer_backward_weights(exec, larger, padded, dy, dweights, dbias, rest);
    }
  }
  if constexpr (std::is_same_v<T, Bfloat16>) {
    widened_backward_weights(exec, shape, x, dy, dweights, dbias, workspace);
  } else {
    const auto pass = has_narrow_weights(shape) ? narrow_backward_weights<T> : outer_backward_weights<T>;
    pass(exec, shape, x, dy, dweights, dbias, workspace);
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                                    \
  template std::size_t conv_workspace<T>(const ConvShape&);                                                        \
  template void conv_forward<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const Wide<T>*, bool, T*, \
                                std::byte*);                                                                       \
  template void conv_backward_data<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const T*, T*, bool, \
                                      std::byte*);                                                                 \
  template void conv_backward_weights<T>(const Exec&, const ConvShape&, const T*, const T*, Wide<T>*, Wide<T>*,    \
                                         std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
