#pragma once

#include "kernels/conv.hpp"

namespace halograd::device {

/// What a device thread needs of a ConvShape.
struct Geometry {
  int channels, filters, in_group, out_group;
  WindowAxis axis[3];

  explicit Geometry(const ConvShape& shape)
      : channels(shape.channels),
        filters(shape.filters),
        in_group(shape.channels / shape.groups),
        out_group(shape.filters / shape.groups),
        axis{shape.axis(0), shape.axis(1), shape.axis(2)} {}

  /// (n, d, h, w) of an input pixel.
  KOKKOS_FUNCTION void split_input(long pixel, int (&at)[4]) const {
    const int extent[3] = {axis[0].extent, axis[1].extent, axis[2].extent};
    split(pixel, extent, at);
  }
  /// (n, d, h, w) of an output pixel.
  KOKKOS_FUNCTION void split_output(long pixel, int (&at)[4]) const {
    const int extent[3] = {axis[0].outputs, axis[1].outputs, axis[2].outputs};
    split(pixel, extent, at);
  }
  [[nodiscard]] KOKKOS_FUNCTION int taps() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }

  /// The input pixel that output pixel `at` reads at a tap, or -1 in the padding.
  [[nodiscard]] KOKKOS_FUNCTION long input_pixel(const int (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, k);
    long pixel = at[0];
    for (int i = 0; i < 3; ++i) {
      const int input = axis[i].input(at[i + 1], k[i]);
      if (input < 0) return -1;
      pixel = pixel * axis[i].extent + input;
    }
    return pixel;
  }
  /// The output pixel that reads input pixel `at` at a tap, or -1 where there is none.
  [[nodiscard]] KOKKOS_FUNCTION long output_pixel(const int (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, k);
    long pixel = at[0];
    for (int i = 0; i < 3; ++i) {
      const int output = axis[i].output(at[i + 1], k[i]);
      if (output < 0) return -1;
      pixel = pixel * axis[i].outputs + output;
    }
    return pixel;
  }

 private:
  KOKKOS_FUNCTION void split_tap(int tap, int (&at)[3]) const {
    at[2] = tap % axis[2].kernel;
    tap /= axis[2].kernel;
    at[1] = tap % axis[1].kernel;
    at[0] = tap / axis[1].kernel;
  }
  KOKKOS_FUNCTION static void split(long pixel, const int (&extent)[3], int (&at)[4]) {
    if (pixel <= 0x7fffffffL) {
      split_number(static_cast<int>(pixel), extent, at);  // four times fewer instructions
    } else {
      split_number(pixel, extent, at);
    }
  }
  template <class Integer>
  KOKKOS_FUNCTION static void split_number(Integer pixel, const int (&extent)[3], int (&at)[4]) {
    for (int i = 2; i >= 0; --i) {
      at[i + 1] = static_cast<int>(pixel % extent[i]);
      pixel /= extent[i];
    }
    at[0] = static_cast<int>(pixel);
  }
};

}  // namespace halograd::device
