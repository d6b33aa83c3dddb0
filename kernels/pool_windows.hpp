#pragma once

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"
#include "kernels/pool.hpp"

namespace halograd {

/// Calls body(plane, row, column, channel, count) for all pixels of (planes, rows, columns, C), where planes are those
/// of all images: a host's work item is a row of pixels, an accelerator's four channels of one. To find a pixel and its
/// windows takes a dozen divisions; of more channels a thread's stores would lie too far from its neighbours'.
template <class Body>
struct PixelItem {
  static constexpr int piece = 4;
  Body body;
  int rows, columns, channels;
  KOKKOS_FUNCTION static int pieces(int channels) { return (channels + piece - 1) / piece; }
  KOKKOS_FUNCTION void operator()(const long item) const {
    if constexpr (runs_on_host) {
      const Body local = body;  // no store can reach this copy, so the compiler keeps it in registers
      const int plane = static_cast<int>(item / rows);
      const int row = static_cast<int>(item % rows);
      for (int column = 0; column < columns; ++column) {
        local(plane, row, column, 0, channels);
      }
    } else {
      const Divided pixel(item, pieces(channels)), line(pixel.quotient, columns), plane(line.quotient, rows);
      const int channel = pixel.rest * piece, left = channels - channel;
      body(static_cast<int>(plane.quotient), plane.rest, line.rest, channel, left < piece ? left : piece);
    }
  }
};

template <class Body>
void for_each_pixel(const ExecutionSpace& exec, const char* name, long planes, int rows, int columns, int channels,
                    const Body& body) {
  const long lines = planes * rows;
  const long items = runs_on_host ? lines : lines * columns * PixelItem<Body>::pieces(channels);
  Kokkos::parallel_for(label(name), FlatRange(exec, 0, items), PixelItem<Body>{body, rows, columns, channels});
}

/// What a work item needs of a PoolShape.
struct PoolWindows {
  WindowAxis depth, height, width;
  int channels;
  explicit PoolWindows(const PoolShape& shape)
      : depth(shape.axis(0)), height(shape.axis(1)), width(shape.axis(2)), channels(shape.channels) {}

  /// Values from the first one of x to a pixel; planes are those of all images.
  [[nodiscard]] KOKKOS_FUNCTION long input(long plane, int row, int column) const {
    return ((plane * height.extent + row) * width.extent + column) * channels;
  }
  /// The same of y.
  [[nodiscard]] KOKKOS_FUNCTION long output(long plane, int row, int column) const {
    return ((plane * height.outputs + row) * width.outputs + column) * channels;
  }
  /// The number of a tap.
  [[nodiscard]] KOKKOS_FUNCTION int place(int t, int r, int s) const {
    return (t * height.kernel + r) * width.kernel + s;
  }
  [[nodiscard]] KOKKOS_FUNCTION int places() const { return depth.kernel * height.kernel * width.kernel; }
  /// Whether windows are the usual ones, of which these rows and columns are inside: four places in two rows.
  [[nodiscard]] KOKKOS_FUNCTION bool whole_four(const WindowAxis::Reach& rows, const WindowAxis::Reach& columns) const {
    return depth.kernel == 1 && height.kernel == 2 && width.kernel == 2 && rows.count() == 2 && columns.count() == 2;
  }
};

/// The checks of the pooling kernels: they throw Error.
inline void require_pool_shape(const char* kernel, const PoolShape& shape, std::size_t input, std::size_t output) {
  const WindowGeometry::Spatial& extent = shape.extent;
  HALOGRAD_REQUIRE(shape.batch >= 0 && shape.channels >= 0 && extent[0] >= 1 && extent[1] >= 1 && extent[2] >= 1,
                   kernel, ": images of ", shape.batch, " x ", extent[0], " x ", extent[1], " x ", extent[2], " x ",
                   shape.channels);
  for (int i = 0; i < 3; ++i) {
    const char* const axis = i == 0 ? "depth" : i == 1 ? "height" : "width";
    const int window = shape.kernel[i], pad = shape.padding[i];
    HALOGRAD_REQUIRE(window >= 1 && shape.stride[i] >= 1, kernel, ": ", axis, " has window ", window, " and stride ",
                     shape.stride[i], ", both must be at least 1");
    HALOGRAD_REQUIRE(pad >= 0 && pad < window, kernel, ": ", axis, " has padding ", pad, " and window ", window,
                     ": a window could lie in the padding alone");
    HALOGRAD_REQUIRE(shape.dilation[i] == 1, kernel, ": ", axis, " has dilation ", shape.dilation[i], ", 1 expected");
    HALOGRAD_REQUIRE(shape.axis(i).outputs >= 1, kernel, ": the window of ", window, " is larger than the padded ",
                     axis, " of ", extent[i], " + 2 x ", pad);
  }
  const std::size_t inputs = static_cast<std::size_t>(shape.in_pixels()) * static_cast<std::size_t>(shape.channels);
  const std::size_t outputs = static_cast<std::size_t>(shape.out_pixels()) * static_cast<std::size_t>(shape.channels);
  HALOGRAD_REQUIRE(input >= inputs && output >= outputs, kernel, ": the shape needs ", inputs, " and ", outputs,
                   " values, the buffers have ", input, " and ", output);
}

inline void require_pool_places(const char* kernel, const PoolShape& shape, std::size_t places, std::size_t output) {
  HALOGRAD_REQUIRE(shape.kernel[0] <= 256 / shape.kernel[1] / shape.kernel[2], kernel, ": a window of ",
                   shape.kernel[0], " x ", shape.kernel[1], " x ", shape.kernel[2],
                   " has more than the 256 places that one byte tells apart");
  HALOGRAD_REQUIRE(places >= output, kernel, ": ", places, " places for ", output, " outputs");
}

}  // namespace halograd
