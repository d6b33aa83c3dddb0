#pragma once

#include <algorithm>

#include "kernels/conv.hpp"

namespace halograd::host {

/// A regular set of pixels of a (N, D, H, W) image: every step-th from start, in each spatial dimension.
struct Lattice {
  int batch = 0;
  ConvShape::Spatial image{1, 1, 1};
  ConvShape::Spatial start{0, 0, 0};
  ConvShape::Spatial step{1, 1, 1};

  [[nodiscard]] int count(int axis) const {
    return image[axis] > start[axis] ? (image[axis] - start[axis] + step[axis] - 1) / step[axis] : 0;
  }
  [[nodiscard]] long pixels() const { return static_cast<long>(batch) * count(0) * count(1) * count(2); }
};

/// A pixel of a lattice.
struct Pixel {
  int n, d, h, w;

  Pixel(const Lattice& lattice, long index) {
    const int counts[3] = {lattice.count(0), lattice.count(1), lattice.count(2)};
    w = static_cast<int>(index % counts[2]) * lattice.step[2] + lattice.start[2];
    index /= counts[2];
    h = static_cast<int>(index % counts[1]) * lattice.step[1] + lattice.start[1];
    index /= counts[1];
    d = static_cast<int>(index % counts[0]) * lattice.step[0] + lattice.start[0];
    n = static_cast<int>(index / counts[0]);
  }
  /// To the first pixel of the next row.
  void next_row(const Lattice& lattice) {
    w = lattice.start[2];
    if ((h += lattice.step[1]) < lattice.image[1]) return;
    h = lattice.start[1];
    if ((d += lattice.step[0]) < lattice.image[0]) return;
    d = lattice.start[0];
    ++n;
  }
  [[nodiscard]] long position(const Lattice& lattice) const {
    return ((static_cast<long>(n) * lattice.image[0] + d) * lattice.image[1] + h) * lattice.image[2] + w;
  }
};

/// Calls visit(pixel, at, length) for each row's part of pixels [first, first + count) of a lattice: `length` pixels
/// from `pixel` on, the first of them the at-th of all.
template <class Visit>
void for_each_row(const Lattice& lattice, long first, int count, const Visit& visit) {
  const int row_length = lattice.count(2);
  int skipped = static_cast<int>(first % row_length);
  Pixel pixel(lattice, first);
  for (int at = 0; at < count;) {
    const int length = std::min(row_length - skipped, count - at);
    visit(pixel, at, length);
    at += length;
    skipped = 0;
    pixel.next_row(lattice);
  }
}

/// A tap of TapMap.
struct Tap {
  int kernel_index;           ///< (t R + r) S + s
  ConvShape::Spatial offset;  ///< added to the pixel's scaled coordinate
  long delta;                 ///< the same in pixels, where the coordinate stays inside
};

/// Where the taps of a pixel read in another image: forwards (an output pixel reads the input) or transposed (an input
/// pixel reads the output gradients that it took part in). Taps are in the order in which their pixels follow one
/// another. `storage` holds ConvShape::taps() of them: nothing is allocated.
class TapMap {
 public:
  /// Forward: all taps, for every output pixel.
  static TapMap forward(const ConvShape& shape, Tap* storage) {
    TapMap map(shape.extent, shape.stride, {1, 1, 1}, storage);
    for (int tap = 0; tap < shape.taps(); ++tap) map.add(shape, tap, -1, {0, 0, 0});
    if (shape.dilation[2] == 1) map.run_ = shape.kernel[2];
    return map;
  }
  /// Transposed: the taps that reach the input pixels of one phase (coordinates modulo the stride).
  static TapMap transposed(const ConvShape& shape, const ConvShape::Spatial& phase, Tap* storage) {
    TapMap map(shape.out_extent(), {1, 1, 1}, shape.stride, storage);
    for (int tap = shape.taps() - 1; tap >= 0; --tap) map.add(shape, tap, +1, phase);
    if (shape.dilation[2] == 1 && shape.stride == ConvShape::Spatial{1, 1, 1}) map.run_ = shape.kernel[2];
    return map;
  }

  [[nodiscard]] int taps() const { return count_; }
  [[nodiscard]] const Tap& tap(int index) const { return taps_[index]; }
  /// So many successive taps read successive pixels, where all of them are inside the image.
  [[nodiscard]] int run() const { return run_; }
  /// Pixels between what a tap reads for one pixel of a row and for the next, on a lattice whose steps are `step`.
  [[nodiscard]] int pixel_step(const ConvShape::Spatial& step) const { return step[2] * multiply_[2] / divide_[2]; }

  /// Where a tap of zero offset reads.
  [[nodiscard]] ConvShape::Spatial scaled(const Pixel& pixel) const {
    return {pixel.d * multiply_[0] / divide_[0], pixel.h * multiply_[1] / divide_[1],
            pixel.w * multiply_[2] / divide_[2]};
  }
  [[nodiscard]] long position(int n, const ConvShape::Spatial& at) const {
    return ((static_cast<long>(n) * image_[0] + at[0]) * image_[1] + at[1]) * image_[2] + at[2];
  }

  /// Whether all taps are inside the image, from a pixel that reads at `first` to one of the same row `reach` further.
  [[nodiscard]] bool inside(const ConvShape::Spatial& first, int reach) const {
    bool all = true;
    for (int axis = 0; axis < 3; ++axis) {
      all = all && first[axis] + lowest_[axis] >= 0 &&
            first[axis] + (axis == 2 ? reach : 0) + highest_[axis] < image_[axis];
    }
    return all;
  }
  /// Whether the row of pixels that a tap reads is inside the image, and the extent of such a row.
  [[nodiscard]] bool row_inside(const ConvShape::Spatial& first, const Tap& tap) const {
    const int d = first[0] + tap.offset[0], h = first[1] + tap.offset[1];
    return d >= 0 && d < image_[0] && h >= 0 && h < image_[1];
  }
  [[nodiscard]] int row_extent() const { return image_[2]; }

 private:
  TapMap(const ConvShape::Spatial& image, const ConvShape::Spatial& multiply, const ConvShape::Spatial& divide,
         Tap* storage)
      : image_(image), multiply_(multiply), divide_(divide), taps_(storage) {}

  // Output o reads input o stride - padding + k dilation; so input i is read by output (i + padding - k dilation) /
  // stride, where that is whole. With i = stride q + phase that output is q + (phase + padding - k dilation) / stride.
  void add(const ConvShape& shape, int index, int sign, const ConvShape::Spatial& phase) {
    const int at[3] = {index / (shape.kernel[1] * shape.kernel[2]), index / shape.kernel[2] % shape.kernel[1],
                       index % shape.kernel[2]};
    Tap tap{index, {}, 0};
    for (int axis = 0; axis < 3; ++axis) {
      const int shift = sign * (shape.padding[axis] - at[axis] * shape.dilation[axis]) + phase[axis];
      if (shift % divide_[axis] != 0) return;
      tap.offset[axis] = shift / divide_[axis];
    }
    tap.delta = (static_cast<long>(tap.offset[0]) * image_[1] + tap.offset[1]) * image_[2] + tap.offset[2];
    for (int axis = 0; axis < 3; ++axis) {
      lowest_[axis] = count_ == 0 ? tap.offset[axis] : std::min(lowest_[axis], tap.offset[axis]);
      highest_[axis] = count_ == 0 ? tap.offset[axis] : std::max(highest_[axis], tap.offset[axis]);
    }
    taps_[count_++] = tap;
  }

  ConvShape::Spatial image_, multiply_, divide_;
  ConvShape::Spatial lowest_{}, highest_{};
  Tap* taps_;
  int count_ = 0;
  int run_ = 1;
};

/// The row pointers of a stretch of pixels: one line a slot, one column a pixel. A slot is a tap or, where every pixel
/// of the stretch is inside the image, a run of taps that reads one stretch of memory.
template <class T>
class TapTable {
 public:
  /// `storage`: (taps, width) pointers.
  TapTable(const TapMap& map, const T** storage, int width) : map_(map), storage_(storage), width_(width) {}

  /// Fills the columns of pixels [first, first + count) of the lattice; further columns up to the width read zeros.
  /// `image` has `depth` values a pixel; slots can be runs only where a tap reads all of them.
  void fill(const Lattice& lattice, long first, int count, const T* image, long depth, bool whole_pixels,
            const T* zeros) {
    const int step = map_.pixel_step(lattice.step);
    inside_ = true;
    for_each_row(lattice, first, count, [&](const Pixel& pixel, int, int length) {
      inside_ = inside_ && map_.inside(map_.scaled(pixel), (length - 1) * step);
    });
    run_ = inside_ && whole_pixels ? map_.run() : 1;
    for_each_row(lattice, first, count, [&](const Pixel& pixel, int at, int length) {
      fill_row(pixel, length, image, depth, step, zeros, storage_ + at);
    });
    for (int slot = 0; slot < slots(); ++slot) {
      for (int p = count; p < width_; ++p) storage_[slot * width_ + p] = zeros;
    }
  }

  [[nodiscard]] bool inside() const { return inside_; }
  [[nodiscard]] int run() const { return run_; }
  [[nodiscard]] int slots() const { return map_.taps() / run_; }
  [[nodiscard]] const T** line(int slot) const { return storage_ + slot * width_; }

 private:
  void fill_row(const Pixel& pixel, int length, const T* image, long depth, int step, const T* zeros, const T** rows) {
    const ConvShape::Spatial base = map_.scaled(pixel);
    const T* const origin = image + map_.position(pixel.n, base) * depth;
    const long pitch = step * depth;
    const int extent = map_.row_extent();
    for (int slot = 0; slot < slots(); ++slot, rows += width_) {
      const Tap& tap = map_.tap(slot * run_);
      int begin = 0, end = length;
      if (!inside_) {
        // Pixels whose coordinate along the row, w + i step, is in [0, extent).
        const int w = base[2] + tap.offset[2];
        if (w < 0) begin = std::min(length, (step - 1 - w) / step);
        end = w < extent && map_.row_inside(base, tap) ? std::min(length, (extent - w + step - 1) / step) : 0;
        begin = std::min(begin, end);
        for (int i = 0; i < begin; ++i) rows[i] = zeros;
        for (int i = end; i < length; ++i) rows[i] = zeros;
      }
      const T* from = origin + tap.delta * depth + begin * pitch;
      for (int i = begin; i < end; ++i, from += pitch) rows[i] = from;
    }
  }

  const TapMap& map_;
  const T** storage_;
  int width_;
  bool inside_ = false;
  int run_ = 1;
};

}  // namespace halograd::host
