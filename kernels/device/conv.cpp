#include "kernels/device/conv.hpp"

#include <algorithm>

#include "kernels/channels.hpp"
#include "kernels/device/conv_products.hpp"
#include "kernels/device/tile_choice.hpp"

namespace halograd::device {
namespace {

/// Null where it is empty.
template <class T>
T* data_or_null(const Vector<T>& values) {
  return values.size() > 0 ? values.data() : nullptr;
}

/// Channels of a group's result from which a tile has enough to do.
constexpr int least_columns = 4;

/// How the weight gradient's sum over the pixels is cut, so that all of a device has work. By the shape alone: the same
/// bits on every device.
struct PixelParts {
  int parts;
  long pixels;  // of a part
};
PixelParts pixel_parts(const ConvShape& shape) {
  constexpr long wanted_tiles = 1024, least_pixels = 256, tile = 128;
  const long rows = static_cast<long>(shape.taps()) * (shape.channels / shape.groups);
  const long columns = shape.filters / shape.groups;
  const long tiles = (rows + tile - 1) / tile * ((columns + tile - 1) / tile) * shape.groups;
  const long pixels = shape.out_pixels();
  const long most = std::min(wanted_tiles / tiles, (pixels + least_pixels - 1) / least_pixels);
  const long parts = std::max(1L, most);
  const long each = (pixels + parts - 1) / parts;
  return {static_cast<int>((pixels + each - 1) / each), each};
}

}  // namespace

template <class T>
std::size_t conv_workspace(const ConvShape& shape) {
  const PixelParts cut = pixel_parts(shape);
  const std::size_t sums =
      cut.parts == 1 ? 0 : static_cast<std::size_t>(cut.parts) * static_cast<std::size_t>(shape.weights()) * sizeof(T);
  return std::max(sums, sum_channels_workspace(shape.out_pixels(), shape.filters) * sizeof(double));
}

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> weights,
                  Vector<const T> bias, bool relu, Vector<T> y) {
  if (shape.filters / shape.groups >= least_columns) {
    multiply(exec, "halograd::conv_forward",
             ForwardProduct<T>(shape, x.data(), weights.data(), data_or_null(bias), relu, y.data()), shape.precision);
    return;
  }
  const Geometry g(shape);
  const bool has_bias = bias.size() > 0;
  Kokkos::parallel_for(
      label("halograd::conv_forward"), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.out_pixels() * shape.filters),
      KOKKOS_LAMBDA(const long index) {
        const int k = static_cast<int>(index % g.filters);
        int at[4];
        g.split_output(index / g.filters, at);
        T sum = has_bias ? bias(k) : T(0);
        for (int tap = 0; tap < g.taps(); ++tap) {
          const long pixel = g.input_pixel(at, tap);
          if (pixel < 0) continue;
          const long from = pixel * g.channels + k / g.out_group * g.in_group;
          const long weight = static_cast<long>(tap) * g.in_group * g.filters + k;
          for (int c = 0; c < g.in_group; ++c) sum += x(from + c) * weights(weight + static_cast<long>(c) * g.filters);
        }
        y(index) = relu && sum < T(0) ? T(0) : sum;
      });
}

template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy, Vector<const T> weights,
                        Vector<const T> relu_output, Vector<T> dx, bool accumulate) {
  if (shape.channels / shape.groups >= least_columns) {
    multiply(exec, "halograd::conv_backward_data",
             DataProduct<T>(shape, dy.data(), weights.data(), data_or_null(relu_output), accumulate, dx.data()),
             shape.precision);
    return;
  }
  const Geometry g(shape);
  const bool masked = relu_output.size() > 0;
  Kokkos::parallel_for(
      label("halograd::conv_backward_data"),
      Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.in_pixels() * shape.channels),
      KOKKOS_LAMBDA(const long index) {
        const int channel = static_cast<int>(index % g.channels);
        const int group = channel / g.in_group;
        int at[4];
        g.split_input(index / g.channels, at);
        T sum = accumulate ? dx(index) : T(0);
        for (int tap = 0; tap < g.taps(); ++tap) {
          const long pixel = g.output_pixel(at, tap);
          if (pixel < 0) continue;
          const long from = pixel * g.filters + static_cast<long>(group) * g.out_group;
          const long weight = (static_cast<long>(tap) * g.in_group + channel % g.in_group) * g.filters +
                              static_cast<long>(group) * g.out_group;
          for (int k = 0; k < g.out_group; ++k) sum += dy(from + k) * weights(weight + k);
        }
        dx(index) = masked && !(relu_output(index) > T(0)) ? T(0) : sum;
      });
}

template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<T> dweights, Vector<T> dbias, Vector<std::byte> workspace) {
  const PixelParts cut = pixel_parts(shape);
  const long length = shape.weights();
  const Vector<T> sums =
      cut.parts == 1 ? dweights : values_at<T>(workspace, 0, static_cast<std::size_t>(cut.parts * length));
  multiply(exec, "halograd::conv_backward_weights",
           WeightProduct<T>(shape, x.data(), dy.data(), sums.data(), cut.parts, cut.pixels), shape.precision);
  if (cut.parts > 1) {
    const int parts = cut.parts;
    Kokkos::parallel_for(
        label("halograd::conv_weights_of_parts"), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, length),
        KOKKOS_LAMBDA(const long index) {
          T sum = T(0);
          for (int part = 0; part < parts; ++part) sum += sums(part * length + index);
          dweights(index) = sum;
        });
  }
  if (dbias.size() == 0) return;
  const std::size_t needed = sum_channels_workspace(shape.out_pixels(), shape.filters);
  sum_channels(exec, shape.out_pixels(), shape.filters, dy, dbias, values_at<double>(workspace, 0, needed));
}

#define HALOGRAD_INSTANTIATE(T)                                                                                     \
  template std::size_t conv_workspace<T>(const ConvShape&);                                                         \
  template void conv_forward<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,          \
                                Vector<const T>, bool, Vector<T>);                                                  \
  template void conv_backward_data<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,    \
                                      Vector<const T>, Vector<T>, bool);                                            \
  template void conv_backward_weights<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>, \
                                         Vector<T>, Vector<T>, Vector<std::byte>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::device
