#pragma once

#include <numeric>

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
  /// The pixel some way on.
  KOKKOS_FUNCTION void next_output(int pixels, int (&at)[4]) const {
    at[3] += pixels;
    for (; at[3] >= axis[2].outputs; at[3] -= axis[2].outputs) {
      if (++at[2] < axis[1].outputs) continue;
      at[2] = 0;
      if (++at[1] < axis[0].outputs) continue;
      at[1] = 0;
      ++at[0];
    }
  }
  [[nodiscard]] KOKKOS_FUNCTION int taps() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }

  /// The input pixel that output pixel `at` reads at a tap, or -1 in the padding.
  [[nodiscard]] KOKKOS_FUNCTION long input_pixel(const int (&at)[4], int tap) const {
    int k[3];
    split_tap(tap, k);
    return input_pixel(at, k);
  }
  /// The same at a tap (t, r, s).
  [[nodiscard]] KOKKOS_FUNCTION long input_pixel(const int (&at)[4], const int (&k)[3]) const {
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

  /// (t, r, s) of a tap.
  KOKKOS_FUNCTION void split_tap(int tap, int (&at)[3]) const {
    at[2] = tap % axis[2].kernel;
    tap /= axis[2].kernel;
    at[1] = tap % axis[1].kernel;
    at[0] = tap / axis[1].kernel;
  }

  /// A number in a batch of images of these extents.
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

/// The input pixels that lie at one phase of the strides, and the taps at which outputs see them: no other tap does.
struct Phase {
  struct Axis {
    int begin, step, count;      ///< the inputs begin + i step, i < count
    int tap, tap_step, taps;     ///< the taps tap + j tap_step, j < taps
    int output, slope, outputs;  ///< such an input is seen at such a tap by output + i - j slope, if there is one
  };
  Axis axis[3];
  int batch;

  Phase(const ConvShape& shape, const ConvShape::Spatial& phase) : batch(shape.batch) {
    for (int i = 0; i < 3; ++i) {
      const WindowAxis window = shape.axis(i);
      const int first = phase[i] + window.padding, stride = window.stride, dilation = window.dilation;
      Axis& a = axis[i];
      a = {phase[i],
           stride,
           (window.extent - phase[i] + stride - 1) / stride,
           0,
           stride / std::gcd(stride, dilation),
           0,
           0,
           0,
           window.outputs};
      a.slope = a.tap_step * dilation / stride;
      while (a.tap < window.kernel && (first - a.tap * dilation) % stride != 0) ++a.tap;
      a.taps = (window.kernel - a.tap + a.tap_step - 1) / a.tap_step;
      a.output = (first - a.tap * dilation) / stride;
    }
  }
  [[nodiscard]] KOKKOS_FUNCTION long pixels() const {
    return static_cast<long>(batch) * axis[0].count * axis[1].count * axis[2].count;
  }
  [[nodiscard]] KOKKOS_FUNCTION int taps() const { return axis[0].taps * axis[1].taps * axis[2].taps; }
  KOKKOS_FUNCTION void split(long pixel, int (&at)[4]) const {
    Geometry::split(pixel, {axis[0].count, axis[1].count, axis[2].count}, at);
  }
  /// The number of one of its pixels among all.
  [[nodiscard]] KOKKOS_FUNCTION long input_pixel(long pixel, const Geometry& g) const {
    if (axis[0].step * axis[1].step * axis[2].step == 1) return pixel;
    int at[4];
    split(pixel, at);
    long input = at[0];
    for (int i = 0; i < 3; ++i) input = input * g.axis[i].extent + axis[i].begin + at[i + 1] * axis[i].step;
    return input;
  }
  /// The output pixel that sees pixel `at` at one of its taps, or -1 where there is none.
  [[nodiscard]] KOKKOS_FUNCTION long output_pixel(const int (&at)[4], int tap) const {
    int j[3];
    split_tap(tap, j);
    long pixel = at[0];
    for (int i = 0; i < 3; ++i) {
      const int output = axis[i].output + at[i + 1] - j[i] * axis[i].slope;
      if (output < 0 || output >= axis[i].outputs) return -1;
      pixel = pixel * axis[i].outputs + output;
    }
    return pixel;
  }
  /// The number of one of its taps among all.
  [[nodiscard]] KOKKOS_FUNCTION int kernel_tap(int tap, const Geometry& g) const {
    int j[3];
    split_tap(tap, j);
    int number = 0;
    for (int i = 0; i < 3; ++i) number = number * g.axis[i].kernel + axis[i].tap + j[i] * axis[i].tap_step;
    return number;
  }

 private:
  KOKKOS_FUNCTION void split_tap(int tap, int (&j)[3]) const {
    j[2] = tap % axis[2].taps;
    tap /= axis[2].taps;
    j[1] = tap % axis[1].taps;
    j[0] = tap / axis[1].taps;
  }
};

/// Calls visit(phase) for the phases that have pixels.
template <class Visit>
void for_each_phase(const ConvShape& shape, const Visit& visit) {
  ConvShape::Spatial at{};
  for (at[0] = 0; at[0] < shape.stride[0]; ++at[0]) {
    for (at[1] = 0; at[1] < shape.stride[1]; ++at[1]) {
      for (at[2] = 0; at[2] < shape.stride[2]; ++at[2]) {
        const Phase phase(shape, at);
        if (phase.pixels() > 0) visit(phase);
      }
    }
  }
}

}  // namespace halograd::device
