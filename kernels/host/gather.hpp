#pragma once

#include <algorithm>

#include "kernels/conv.hpp"

namespace halograd::host {

/// A regular set of pixels of a (N, D, H, W) image: every step-th from start, in each spatial dimension. They are
/// counted row by row or, with images_innermost, position by position: the same one of each image, then the next one.
struct Lattice {
  int batch = 0;
  ConvShape::Spatial image{1, 1, 1};
  ConvShape::Spatial start{0, 0, 0};
  ConvShape::Spatial step{1, 1, 1};
  bool images_innermost = false;

  [[nodiscard]] int count(int axis) const {
    return image[axis] > start[axis] ? (image[axis] - start[axis] + step[axis] - 1) / step[axis] : 0;
  }
  [[nodiscard]] long pixels() const { return static_cast<long>(batch) * count(0) * count(1) * count(2); }
  /// Positions from a pixel to the next one counted, on a line (for_each_line).
  [[nodiscard]] long line_step() const {
    return images_innermost ? static_cast<long>(image[0]) * image[1] * image[2] : step[2];
  }
};

/// A pixel of a lattice.
struct Pixel {
  int n, d, h, w;

  Pixel(const Lattice& lattice, long index) {
    const int counts[3] = {lattice.count(0), lattice.count(1), lattice.count(2)};
    if (lattice.images_innermost) {
      n = static_cast<int>(index % lattice.batch);
      index /= lattice.batch;
    }
    w = static_cast<int>(index % counts[2]) * lattice.step[2] + lattice.start[2];
    index /= counts[2];
    h = static_cast<int>(index % counts[1]) * lattice.step[1] + lattice.start[1];
    index /= counts[1];
    d = static_cast<int>(index % counts[0]) * lattice.step[0] + lattice.start[0];
    if (!lattice.images_innermost) n = static_cast<int>(index / counts[0]);
  }
  /// To the first pixel of the next row or position.
  void next_line(const Lattice& lattice) {
    if (lattice.images_innermost) {
      n = 0;
      if ((w += lattice.step[2]) < lattice.image[2]) return;
    }
    w = lattice.start[2];
    if ((h += lattice.step[1]) < lattice.image[1]) return;
    h = lattice.start[1];
    if ((d += lattice.step[0]) < lattice.image[0]) return;
    d = lattice.start[0];
    if (!lattice.images_innermost) ++n;
  }
  [[nodiscard]] long position(const Lattice& lattice) const {
    return ((static_cast<long>(n) * lattice.image[0] + d) * lattice.image[1] + h) * lattice.image[2] + w;
  }
};

/// Calls visit(pixel, at, length) for each line's part of pixels [first, first + count) of a lattice: `length` pixels
/// from `pixel` on, the first of them the at-th of all. A line is a row or, with images_innermost, a position.
template <class Visit>
void for_each_line(const Lattice& lattice, long first, int count, const Visit& visit) {
  const int line_length = lattice.images_innermost ? lattice.batch : lattice.count(2);
  int skipped = static_cast<int>(first % line_length);
  Pixel pixel(lattice, first);
  for (int at = 0; at < count;) {
    const int length = std::min(line_length - skipped, count - at);
    visit(pixel, at, length);
    at += length;
    skipped = 0;
    pixel.next_line(lattice);
  }
}

/// Calls visit(phase) for each phase of the input pixels, their coordinates modulo the stride: those of one phase are
/// reached by the same taps. With stride 1 there is one.
template <class Visit>
void for_each_phase(const ConvShape& shape, const Visit& visit) {
  ConvShape::Spatial phase{};
  for (phase[0] = 0; phase[0] < shape.stride[0]; ++phase[0]) {
    for (phase[1] = 0; phase[1] < shape.stride[1]; ++phase[1]) {
      for (phase[2] = 0; phase[2] < shape.stride[2]; ++phase[2]) visit(phase);
    }
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
    for (int tap = 0; tap < shape.taps(); ++tap) map.add(shape, tap, false, {0, 0, 0});
    if (shape.dilation[2] == 1) map.run_ = shape.kernel[2];
    return map;
  }
  /// Transposed: the taps that reach the input pixels of one phase (coordinates modulo the stride).
  static TapMap transposed(const ConvShape& shape, const ConvShape::Spatial& phase, Tap* storage) {
    TapMap map(shape.out_extent(), {1, 1, 1}, shape.stride, storage);
    for (int tap = shape.taps() - 1; tap >= 0; --tap) map.add(shape, tap, true, phase);
    if (shape.dilation[2] == 1 && shape.stride == ConvShape::Spatial{1, 1, 1}) map.run_ = shape.kernel[2];
    return map;
  }

  /// Transposed: what the taps of all phases with this one in depth read, for the pixels where row and column are of
  /// phase 0: each offset once, kernel_index any tap's that reads there.
  static TapMap sources(const ConvShape& shape, int depth_phase, Tap* storage) {
    TapMap map(shape.out_extent(), {1, 1, 1}, shape.stride, storage);
    for_each_phase(shape, [&](const ConvShape::Spatial& phase) {
      if (phase[0] != depth_phase) return;
      for (int tap = shape.taps() - 1; tap >= 0; --tap) map.add(shape, tap, true, phase);
    });
    std::sort(storage, storage + map.count_, [](const Tap& a, const Tap& b) { return a.offset < b.offset; });
    const auto same = [](const Tap& a, const Tap& b) { return a.offset == b.offset; };
    map.count_ = static_cast<int>(std::unique(storage, storage + map.count_, same) - storage);
    return map;
  }

  [[nodiscard]] int taps() const { return count_; }
  [[nodiscard]] const Tap& tap(int index) const { return taps_[index]; }
  /// So many successive taps read successive pixels, where all of them are inside the image.
  [[nodiscard]] int run() const { return run_; }
  /// Between what a tap reads for one pixel of a lattice and for the next along an axis.
  [[nodiscard]] int step(const Lattice& lattice, int axis) const {
    return lattice.step[axis] * multiply_[axis] / divide_[axis];
  }
  /// The share of all (pixel, tap) pairs of a lattice that read inside the image.
  [[nodiscard]] double inside_share(const Lattice& lattice) const {
    const Pixel first(lattice, 0);
    double inside = 0, all = 0;
    for (int i = 0; i < count_; ++i) {
      double pairs = 1, hits = 1;
      for (int axis = 0; axis < 3; ++axis) {
        const IndexRange range = indices_inside(scaled(first)[axis] + taps_[i].offset[axis], step(lattice, axis),
                                                image_[axis], lattice.count(axis));
        pairs *= lattice.count(axis);
        hits *= range.end - range.begin;
      }
      inside += hits;
      all += pairs;
    }
    return all > 0 ? inside / all : 1;
  }

  /// Where a tap of zero offset reads.
  [[nodiscard]] ConvShape::Spatial scaled(int d, int h, int w) const {
    return {d * multiply_[0] / divide_[0], h * multiply_[1] / divide_[1], w * multiply_[2] / divide_[2]};
  }
  [[nodiscard]] ConvShape::Spatial scaled(const Pixel& pixel) const { return scaled(pixel.d, pixel.h, pixel.w); }
  [[nodiscard]] long position(int n, const ConvShape::Spatial& at) const {
    return ((static_cast<long>(n) * image_[0] + at[0]) * image_[1] + at[1]) * image_[2] + at[2];
  }

  /// Whether all taps are inside the image, from a pixel that reads at `first` to one of the same row `further` on.
  [[nodiscard]] bool inside(const ConvShape::Spatial& first, int further) const {
    bool all = true;
    for (int axis = 0; axis < 3; ++axis) {
      all = all && first[axis] + lowest_[axis] >= 0 &&
            first[axis] + (axis == 2 ? further : 0) + highest_[axis] < image_[axis];
    }
    return all;
  }
  /// Whether the row of pixels that a tap reads is inside the image, and the extent of such a row.
  [[nodiscard]] bool row_inside(const ConvShape::Spatial& first, const Tap& tap) const {
    const int d = first[0] + tap.offset[0], h = first[1] + tap.offset[1];
    return d >= 0 && d < image_[0] && h >= 0 && h < image_[1];
  }
  [[nodiscard]] int row_extent() const { return image_[2]; }
  [[nodiscard]] long image_pixels() const { return static_cast<long>(image_[0]) * image_[1] * image_[2]; }

 private:
  TapMap(const ConvShape::Spatial& image, const ConvShape::Spatial& multiply, const ConvShape::Spatial& divide,
         Tap* storage)
      : image_(image), multiply_(multiply), divide_(divide), taps_(storage) {}

  // Output o reads input o stride + offset(tap); so input i is read by output (i - offset(tap)) / stride, where that is
  // whole. With i = stride q + phase that output is q + (phase - offset(tap)) / stride.
  void add(const ConvShape& shape, int index, bool transposed, const ConvShape::Spatial& phase) {
    const int at[3] = {index / (shape.kernel[1] * shape.kernel[2]), index / shape.kernel[2] % shape.kernel[1],
                       index % shape.kernel[2]};
    Tap tap{index, {}, 0};
    for (int axis = 0; axis < 3; ++axis) {
      const int offset = shape.axis(axis).offset(at[axis]);
      const int shift = transposed ? phase[axis] - offset : offset;
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

/// The lattice with the order of its pixels. Where less than `share` of what the taps read is inside the image, one
/// position of many images at a time: a tile then skips the taps that all of them have outside.
inline Lattice ordered(const TapMap& map, Lattice lattice, double share) {
  lattice.images_innermost = lattice.batch >= 8 && lattice.pixels() > 0 && map.inside_share(lattice) < share;
  return lattice;
}

/// The row pointers of a stretch of pixels: one line a slot, one column a pixel. A slot is a tap or, where every pixel
/// of the stretch is inside the image, a run of taps that reads one stretch of memory.
template <class T>
class TapTable {
 public:
  /// `storage`: (taps, width) pointers.
  TapTable(const TapMap& map, const T** storage, int width) : map_(map), storage_(storage), width_(width) {}

  /// Fills the columns of pixels [first, first + count) of the lattice; further columns up to the width read zeros.
  /// `image` has `depth` values per pixel; slots can be runs only where a tap reads all of them.
  void fill(const Lattice& lattice, long first, int count, const T* image, long depth, bool whole_pixels,
            const T* zeros) {
    const bool images = lattice.images_innermost;
    const int step = images ? 0 : map_.step(lattice, 2);
    const long pitch = (images ? map_.image_pixels() : step) * depth;
    inside_ = true;
    for_each_line(lattice, first, count, [&](const Pixel& pixel, int, int length) {
      inside_ = inside_ && map_.inside(map_.scaled(pixel), (length - 1) * step);
    });
    run_ = inside_ && whole_pixels ? map_.run() : 1;
    for_each_line(lattice, first, count, [&](const Pixel& pixel, int at, int length) {
      fill_line(pixel, length, image, depth, step, pitch, zeros, storage_ + at);
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
  /// Pixels of one line, which a tap reads `step` further along the row each, `pitch` values apart.
  void fill_line(const Pixel& pixel, int length, const T* image, long depth, int step, long pitch, const T* zeros,
                 const T** rows) {
    const ConvShape::Spatial base = map_.scaled(pixel);
    const long origin = map_.position(pixel.n, base);
    for (int slot = 0; slot < slots(); ++slot, rows += width_) {
      const Tap& tap = map_.tap(slot * run_);
      IndexRange range{0, length};
      if (!inside_) {
        const int w = base[2] + tap.offset[2];
        const bool stays = step == 0;  // every pixel of the line reads at w
        if (!map_.row_inside(base, tap) || (stays && (w < 0 || w >= map_.row_extent()))) {
          range.end = 0;
        } else if (!stays) {
          range = indices_inside(w, step, map_.row_extent(), length);
        }
        for (int i = 0; i < range.begin; ++i) rows[i] = zeros;
        for (int i = range.end; i < length; ++i) rows[i] = zeros;
        if (range.begin == range.end) continue;
      }
      const T* from = image + (origin + tap.delta) * depth + range.begin * pitch;
      for (int i = range.begin; i < range.end; ++i, from += pitch) rows[i] = from;
    }
  }

  const TapMap& map_;
  const T** storage_;
  int width_;
  bool inside_ = false;
  int run_ = 1;
};

}  // namespace halograd::host
