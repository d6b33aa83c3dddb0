#pragma once

#include "kernels/conv.hpp"

namespace halograd::device {

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
  KOKKOS_FUNCTION static void split(long pixel, const int (&extent)[3], int (&at)[4]) {
    if (pixel <= 0x7fffffffL) {
      split_number(static_cast<int>(pixel), extent, at);  // four times fewer instructions
    } else {
      split_number(pixel, extent, at);
    }
  }
  KOKKOS_FUNCTION static void split_tap(int tap, const int (&kernel)[3], int (&at)[3]) {
    at[2] = tap % kernel[2];
    tap /= kernel[2];
    at[1] = tap % kernel[1];
    at[0] = tap / kernel[1];
  }
  [[nodiscard]] KOKKOS_FUNCTION int taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// The input pixel that output pixel `at` reads at a tap, or -1 in the padding.
  [[nodiscard]] KOKKOS_FUNCTION long input_pixel(const int (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, kernel, k);
    long pixel = at[0];
    for (int axis = 0; axis < 3; ++axis) {
      const int i = at[axis + 1] * stride[axis] - padding[axis] + k[axis] * dilation[axis];
      if (i < 0 || i >= in[axis]) return -1;
      pixel = pixel * in[axis] + i;
    }
    return pixel;
  }
  /// The output pixel that reads input pixel `at` at a tap, or -1 where there is none.
  [[nodiscard]] KOKKOS_FUNCTION long output_pixel(const int (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, kernel, k);
    long pixel = at[0];
    for (int axis = 0; axis < 3; ++axis) {
      const int scaled = at[axis + 1] + padding[axis] - k[axis] * dilation[axis];
      if (scaled < 0 || scaled % stride[axis] != 0 || scaled / stride[axis] >= out[axis]) return -1;
      pixel = pixel * out[axis] + scaled / stride[axis];
    }
    return pixel;
  }

 private:
  template <class Integer>
  KOKKOS_FUNCTION static void split_number(Integer pixel, const int (&extent)[3], int (&at)[4]) {
    for (int axis = 2; axis >= 0; --axis) {
      at[axis + 1] = static_cast<int>(pixel % extent[axis]);
      pixel /= extent[axis];
    }
    at[0] = static_cast<int>(pixel);
  }
};

}  // namespace halograd::device
