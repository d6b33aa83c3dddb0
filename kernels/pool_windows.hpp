#pragma once

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"
#include "kernels/pool.hpp"

namespace halograd {

/// Calls body(plane, row, column, channel, count) for all pixels of (planes, rows, columns, C), where planes are those
/// of all images: a host's work item is a row of pixels, an accelerator's a single value.
template <class Body>
struct PixelItem {
  Body body;
  int rows, columns, channels;
  KOKKOS_FUNCTION void operator()(const long item) const {
    if constexpr (runs_on_host) {
      const Body local = body;  // no store can reach this copy, so the compiler keeps it in registers
      const int plane = static_cast<int>(item / rows);
      const int row = static_cast<int>(item % rows);
      for (int column = 0; column < columns; ++column) {
        local(plane, row, column, 0, channels);
      }
    } else {
      const long pixel = item / channels;
      const long line = pixel / columns;
      body(static_cast<int>(line / rows), static_cast<int>(line % rows), static_cast<int>(pixel % columns),
           static_cast<int>(item % channels), 1);
    }
  }
};

template <class Body>
void for_each_pixel(const ExecutionSpace& exec, const char* name, long planes, int rows, int columns, int channels,
                    const Body& body) {
  const long lines = planes * rows;
  const long items = runs_on_host ? lines : lines * columns * channels;
  Kokkos::parallel_for(label(name), FlatRange(exec, 0, items), PixelItem<Body>{body, rows, columns, channels});
}

/// One axis of a window: its start, perhaps in the padding, and the part of 0..kernel-1 that lies in the image.
struct Reach {
  int start, begin, end;
};

KOKKOS_INLINE_FUNCTION Reach reach_of(int out, int stride, int pad, int kernel, int extent) {
  const int start = out * stride - pad;
  return {start, start < 0 ? -start : 0, start + kernel > extent ? extent - start : kernel};
}

/// The outputs begin..end-1 whose windows hold input `in`.
KOKKOS_INLINE_FUNCTION Reach windows_over(int in, int stride, int pad, int kernel, int outputs) {
  const int shifted = in + pad;
  const int begin = shifted < kernel ? 0 : (shifted - kernel) / stride + 1;
  const int last = shifted / stride;
  return {shifted, begin, last < outputs ? last + 1 : outputs};
}

KOKKOS_INLINE_FUNCTION long pixel_offset(long plane, int row, int column, int rows, int columns, int channels) {
  return ((plane * rows + row) * columns + column) * channels;
}

/// The checks of the pooling kernels: they throw Error.
inline void require_pool_axis(const char* kernel, const char* axis, int extent, int window, int stride, int pad) {
  HALOGRAD_REQUIRE(window >= 1 && stride >= 1, kernel, ": ", axis, " has window ", window, " and stride ", stride,
                   ", both must be at least 1");
  HALOGRAD_REQUIRE(pad >= 0 && pad < window, kernel, ": ", axis, " has padding ", pad, " and window ", window,
                   ": a window could lie in the padding alone");
  HALOGRAD_REQUIRE(extent + 2 * pad >= window, kernel, ": the window of ", window, " is larger than the padded ", axis,
                   " of ", extent, " + 2 x ", pad);
}

inline void require_pool_shape(const char* kernel, const PoolShape& shape, std::size_t input, std::size_t output) {
  HALOGRAD_REQUIRE(shape.batch >= 0 && shape.channels >= 0 && shape.depth >= 1 && shape.height >= 1 && shape.width >= 1,
                   kernel, ": images of ", shape.batch, " x ", shape.depth, " x ", shape.height, " x ", shape.width,
                   " x ", shape.channels);
  require_pool_axis(kernel, "depth", shape.depth, shape.kernel_d, shape.stride_d, shape.pad_d);
  require_pool_axis(kernel, "height", shape.height, shape.kernel_h, shape.stride_h, shape.pad_h);
  require_pool_axis(kernel, "width", shape.width, shape.kernel_w, shape.stride_w, shape.pad_w);
  const auto lines = static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.channels);
  const std::size_t inputs = lines * static_cast<std::size_t>(shape.depth) * static_cast<std::size_t>(shape.height) *
                             static_cast<std::size_t>(shape.width);
  const std::size_t outputs = lines * static_cast<std::size_t>(shape.out_depth()) *
                              static_cast<std::size_t>(shape.out_height()) *
                              static_cast<std::size_t>(shape.out_width());
  HALOGRAD_REQUIRE(input >= inputs && output >= outputs, kernel, ": the shape needs ", inputs, " and ", outputs,
                   " values, the buffers have ", input, " and ", output);
}

inline void require_pool_places(const char* kernel, const PoolShape& shape, std::size_t places, std::size_t output) {
  HALOGRAD_REQUIRE(shape.kernel_d <= 256 / shape.kernel_h / shape.kernel_w, kernel, ": a window of ", shape.kernel_d,
                   " x ", shape.kernel_h, " x ", shape.kernel_w,
                   " has more than the 256 places that one byte tells apart");
  HALOGRAD_REQUIRE(places >= output, kernel, ": ", places, " places for ", output, " outputs");
}

}  // namespace halograd
