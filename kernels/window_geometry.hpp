#pragma once

#include <array>

#include "kernels/types.hpp"

/// The windows of convolution and pooling: which inputs an output sees, and which outputs see an input.
namespace halograd {

/// The numbers begin, ..., end - 1.
struct IndexRange {
  int begin, end;
};

/// The i in [0, count) with 0 <= start + i step < extent; step is positive.
KOKKOS_INLINE_FUNCTION IndexRange indices_inside(int start, int step, int extent, int count) {
  // without a division for the usual step
  const int left = extent - start;
  const int fitting = left <= 0 ? 0 : step == 1 ? left : (left + step - 1) / step;
  const int before = start >= 0 ? 0 : step == 1 ? -start : (-start + step - 1) / step;
  const int end = fitting < count ? fitting : count;
  return {before < end ? before : end, end};
}

/// One axis of windows: tap k in [0, kernel) of output o sees input o stride - padding + k dilation, which is padding
/// unless it lies in [0, extent).
struct WindowAxis {
  int extent, kernel, stride, padding, dilation;
  /// floor((extent + 2 padding + more - dilation (kernel - 1) - 1) / stride) + 1, or 0 where the window does not fit.
  int outputs;

  /// The stride is at least 1. `more`: as WindowGeometry::more_behind.
  WindowAxis(int inputs, int taps, int step, int border, int spread, int more = 0)
      : extent(inputs), kernel(taps), stride(step), padding(border), dilation(spread), outputs(0) {
    const long room = extent + 2L * padding + more - static_cast<long>(dilation) * (kernel - 1) - 1;
    if (room >= 0) outputs = static_cast<int>(room / stride) + 1;
  }

  /// What a tap adds to output * stride to find its input.
  [[nodiscard]] KOKKOS_FUNCTION int offset(int tap) const { return tap * dilation - padding; }
  /// The input that an output sees at a tap, or -1 in the padding.
  [[nodiscard]] KOKKOS_FUNCTION int input(int output, int tap) const {
    const int at = output * stride + offset(tap);
    return at < 0 || at >= extent ? -1 : at;
  }
  /// The output that sees an input at a tap, or -1 where there is none.
  [[nodiscard]] KOKKOS_FUNCTION int output(int input, int tap) const {
    const int scaled = input - offset(tap);
    return scaled < 0 || scaled % stride != 0 || scaled / stride >= outputs ? -1 : scaled / stride;
  }

  /// Where the window of an output lies: tap 0 at input `start`, and taps [begin, end) inside the image.
  struct Reach {
    int start, begin, end;
    /// The first input inside.
    [[nodiscard]] KOKKOS_FUNCTION int first() const { return start + begin; }
    [[nodiscard]] KOKKOS_FUNCTION int count() const { return end - begin; }
  };
  /// For dilation 1.
  [[nodiscard]] KOKKOS_FUNCTION Reach reach(int output) const {
    const int start = output * stride - padding;
    const IndexRange taps = indices_inside(start, 1, extent, kernel);
    return {start, taps.begin, taps.end};
  }
  /// The outputs whose windows hold an input, for dilation 1.
  [[nodiscard]] KOKKOS_FUNCTION IndexRange outputs_over(int input) const {
    const int shifted = input + padding;
    const int begin = shifted < kernel ? 0 : (shifted - kernel) / stride + 1;
    const int last = shifted / stride;
    return {begin, last < outputs ? last + 1 : outputs};
  }
  /// The tap at which such an output sees the input.
  [[nodiscard]] KOKKOS_FUNCTION int tap(int input, int output) const { return input + padding - output * stride; }
};

/// Windows over a batch of images in up to three spatial dimensions, (depth, height, width); leading dimensions that an
/// image does not have keep extent, kernel, stride and dilation 1 and padding 0.
struct WindowGeometry {
  using Spatial = std::array<int, 3>;
  int batch = 0;
  Spatial extent{1, 1, 1};  ///< of the input
  Spatial kernel{1, 1, 1};
  Spatial stride{1, 1, 1};
  Spatial padding{0, 0, 0};
  Spatial dilation{1, 1, 1};
  /// What the padding behind the input exceeds the one before it by, which is not 0 where the windows are those of a
  /// part of an image; below 0 where windows end before the input does.
  Spatial more_behind{0, 0, 0};

  [[nodiscard]] WindowAxis axis(int index) const {
    return {extent[index], kernel[index], stride[index], padding[index], dilation[index], more_behind[index]};
  }
  /// WindowAxis::outputs of each axis.
  [[nodiscard]] Spatial out_extent() const { return {axis(0).outputs, axis(1).outputs, axis(2).outputs}; }
  [[nodiscard]] bool fits() const { return axis(0).outputs > 0 && axis(1).outputs > 0 && axis(2).outputs > 0; }
  [[nodiscard]] long in_pixels() const { return static_cast<long>(batch) * extent[0] * extent[1] * extent[2]; }
  [[nodiscard]] long out_pixels() const {
    const Spatial out = out_extent();
    return static_cast<long>(batch) * out[0] * out[1] * out[2];
  }
  [[nodiscard]] bool padded() const {
    for (int i = 0; i < 3; ++i) {
      if (padding[i] > 0 || padding[i] + more_behind[i] > 0) return true;
    }
    return false;
  }
  [[nodiscard]] int taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// The least extent that gives this number of outputs along an axis without more padding behind than before; not
  /// positive where all of them would lie in the padding.
  [[nodiscard]] long extent_for(int index, long outputs) const {
    return (outputs - 1) * stride[index] - 2L * padding[index] +
           static_cast<long>(dilation[index]) * (kernel[index] - 1) + 1;
  }
};

}  // namespace halograd
