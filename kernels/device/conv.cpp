#include "kernels/device/conv.hpp"
#include "kernels/label.hpp"

namespace halograd::device {
namespace {

/// ConvShape with all that a device thread needs, in plain arrays.
struct Geometry {
  int channels, filters, in_group, out_group;
  int in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];

  explicit Geometry(const ConvShape& shape)
      : channels(shape.channels),
        filters(shape.filters),
        in_group(shape.channels / shape.groups),
        out_group(shape.filters / shape.groups) {
    const ConvShape::Spatial out_extent = shape.out_extent();
    for (int axis = 0; axis < 3; ++axis) {
      in[axis] = shape.extent[axis];
      out[axis] = out_extent[axis];
      kernel[axis] = shape.kernel[axis];
      stride[axis] = shape.stride[axis];
      padding[axis] = shape.padding[axis];
      dilation[axis] = shape.dilation[axis];
    }
  }

  /// (n, d, h, w) of a pixel of an image with these extents.
  KOKKOS_FUNCTION static void split(long pixel, const int (&extent)[3], long (&at)[4]) {
    at[3] = pixel % extent[2];
    pixel /= extent[2];
    at[2] = pixel % extent[1];
    pixel /= extent[1];
    at[1] = pixel % extent[0];
    at[0] = pixel / extent[0];
  }
  KOKKOS_FUNCTION static void split_tap(int tap, const int (&kernel)[3], int (&at)[3]) {
    at[2] = tap % kernel[2];
    tap /= kernel[2];
    at[1] = tap % kernel[1];
    at[0] = tap / kernel[1];
  }
  [[nodiscard]] KOKKOS_FUNCTION int taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// The input pixel that output pixel `at` reads at a tap, or -1 in the padding.
  [[nodiscard]] KOKKOS_FUNCTION long input_pixel(const long (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, kernel, k);
    long pixel = at[0];
    for (int axis = 0; axis < 3; ++axis) {
      const long i = at[axis + 1] * stride[axis] - padding[axis] + k[axis] * dilation[axis];
      if (i < 0 || i >= in[axis]) return -1;
      pixel = pixel * in[axis] + i;
    }
    return pixel;
  }
  /// The output pixel that reads input pixel `at` at a tap, or -1 where there is none.
  [[nodiscard]] KOKKOS_FUNCTION long output_pixel(const long (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, kernel, k);
    long pixel = at[0];
    for (int axis = 0; axis < 3; ++axis) {
      const long scaled = at[axis + 1] + padding[axis] - k[axis] * dilation[axis];
      if (scaled < 0 || scaled % stride[axis] != 0 || scaled / stride[axis] >= out[axis]) return -1;
      pixel = pixel * out[axis] + scaled / stride[axis];
    }
    return pixel;
  }
};

}  // namespace

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> weights,
                  Vector<const T> bias, bool relu, Vector<T> y) {
  const Geometry g(shape);
  const bool has_bias = bias.size() > 0;
  Kokkos::parallel_for(
      label("halograd::conv_forward"), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.out_pixels() * shape.filters),
      KOKKOS_LAMBDA(const long index) {
        const int k = static_cast<int>(index % g.filters);
        long at[4];
        Geometry::split(index / g.filters, g.out, at);
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
  const Geometry g(shape);
  const bool masked = relu_output.size() > 0;
  Kokkos::parallel_for(
      label("halograd::conv_backward_data"),
      Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.in_pixels() * shape.channels),
      KOKKOS_LAMBDA(const long index) {
        const int channel = static_cast<int>(index % g.channels);
        const int group = channel / g.in_group;
        long at[4];
        Geometry::split(index / g.channels, g.in, at);
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
                           Vector<T> dweights, Vector<T> dbias) {
  const Geometry g(shape);
  const long pixels = shape.out_pixels();
  Kokkos::parallel_for(
      label("halograd::conv_backward_weights"), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.weights()),
      KOKKOS_LAMBDA(const long index) {
        const int k = static_cast<int>(index % g.filters);
        const long row = index / g.filters;
        const int tap = static_cast<int>(row / g.in_group);
        const long channel = row % g.in_group + static_cast<long>(k / g.out_group) * g.in_group;
        T sum = T(0);
        for (long p = 0; p < pixels; ++p) {
          long at[4];
          Geometry::split(p, g.out, at);
          const long pixel = g.input_pixel(at, tap);
          if (pixel >= 0) sum += x(pixel * g.channels + channel) * dy(p * g.filters + k);
        }
        dweights(index) = sum;
      });
  if (dbias.size() == 0) return;
  Kokkos::parallel_for(
      label("halograd::conv_backward_bias"), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.filters),
      KOKKOS_LAMBDA(const int k) {
        T sum = T(0);
        for (long p = 0; p < pixels; ++p) sum += dy(p * g.filters + k);
        dbias(k) = sum;
      });
}

#define HALOGRAD_INSTANTIATE(T)                                                                                     \
  template void conv_forward<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,          \
                                Vector<const T>, bool, Vector<T>);                                                  \
  template void conv_backward_data<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,    \
                                      Vector<const T>, Vector<T>, bool);                                            \
  template void conv_backward_weights<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>, \
                                         Vector<T>, Vector<T>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::device
