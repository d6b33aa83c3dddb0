#pragma once

#include "kernels/conv.hpp"
#include "kernels/host/simd.hpp"

/// What the passes of convolutions with few channels share (conv_narrow.cpp, conv_narrow_weights.cpp).
namespace halograd::host {

/// Packs of columns in a register tile.
constexpr int narrow_packs = simd_registers >= 32 ? 2 : 1;

/// Where rows of y and the kernel's slots read in x, in values.
struct NarrowGeometry {
  const ConvShape& shape;
  ConvShape::Spatial out;
  long row, image;  ///< of x
  long distance;    ///< from a pixel of y to the next one
  int slots;
  explicit NarrowGeometry(const ConvShape& conv)
      : shape(conv),
        out(conv.out_extent()),
        row(static_cast<long>(conv.extent[2]) * conv.channels),
        image(conv.extent[1] * row),
        distance(static_cast<long>(conv.stride[2]) * conv.channels),
        slots(conv.kernel[0] * conv.kernel[1]) {}
  [[nodiscard]] long slot_begin(int slot) const {
    return slot / shape.kernel[1] * shape.dilation[0] * image +
           static_cast<long>(slot % shape.kernel[1]) * shape.dilation[1] * row;
  }
  [[nodiscard]] long row_begin(long row_of_y) const {
    const long n = row_of_y / out[1] / out[0], d = row_of_y / out[1] % out[0], h = row_of_y % out[1];
    return (n * shape.extent[0] + d * shape.stride[0]) * image + h * shape.stride[1] * row;
  }
  /// Rows of y, over all images.
  [[nodiscard]] long rows() const { return static_cast<long>(shape.batch) * out[0] * out[1]; }
};

}  // namespace halograd::host
