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

/// A pixel of a lattice, counted up without divisions.
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
  void next(const Lattice& lattice) {
    if ((w += lattice.step[2]) < lattice.image[2]) return;
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

/// Where the taps of a pixel read in another image: forwards (an output pixel reads the input) or transposed (an input
/// pixel reads the output gradients that it took part in). Taps are in the order in which their pixels follow one
/// another.
class TapMap {
 public:
  struct Tap {
    int kernel_index;
    ConvShape::Spatial offset;  ///< added to the pixel's scaled coordinate
    long delta;                 ///< the same in pixels, where the coordinate stays inside
  };

  /// Forward: all taps, for every output pixel. `storage` has room for all taps, and outlives the map.
  static TapMap forward(const ConvShape& shape, Tap* storage) {
    TapMap map(storage, shape.extent, shape.stride, {1, 1, 1});
    for (int tap = 0; tap < shape.taps(); ++tap) map.add(shape, tap, -1, {0, 0, 0});
    if (shape.dilation[2] == 1) map.run_ = shape.kernel[2];
    return map;
  }
  /// Transposed: the taps that reach the input pixels of one phase (coordinates modulo the stride).
  static TapMap transposed(const ConvShape& shape, const ConvShape::Spatial& phase, Tap* storage) {
    TapMap map(storage, shape.out_extent(), {1, 1, 1}, shape.stride);
    for (int tap = shape.taps() - 1; tap >= 0; --tap) map.add(shape, tap, +1, phase);
    if (shape.dilation[2] == 1 && shape.stride == ConvShape::Spatial{1, 1, 1}) map.run_ = shape.kernel[2];
    return map;
  }

  [[nodiscard]] int taps() const { return count_; }
  /// Position of a tap in the kernel, (t R + r) S + s.
  [[nodiscard]] int kernel_index(int tap) const { return taps_[tap].kernel_index; }
  /// So many successive taps read successive pixels, where all of them are inside the image.
  [[nodiscard]] int run() const { return run_; }

  /// Whether all taps of this pixel are inside the image.
  [[nodiscard]] bool inside(const Pixel& pixel) const {
    const ConvShape::Spatial base = scaled(pixel);
    bool all = true;
    for (int axis = 0; axis < 3; ++axis) {
      all = all && base[axis] + lowest_[axis] >= 0 && base[axis] + highest_[axis] < image_[axis];
    }
    return all;
  }

  /// Sets rows[i * pitch] to where tap i * every of this inside pixel reads in `image`, with `depth` values a pixel.
  template <class T>
  void fill_inside(const Pixel& pixel, const T* image, long depth, int every, const T** rows, int pitch) const {
    const T* origin = image + position(pixel) * depth;
    for (int tap = 0; tap < count_; tap += every, rows += pitch) *rows = origin + taps_[tap].delta * depth;
  }

  /// The same for every tap of any pixel; `zeros` where a tap is outside.
  template <class T>
  void fill(const Pixel& pixel, const T* image, long depth, const T* zeros, const T** rows, int pitch) const {
    if (inside(pixel)) return fill_inside(pixel, image, depth, 1, rows, pitch);
    const ConvShape::Spatial base = scaled(pixel);
    const long origin = position(pixel);
    for (int i = 0; i < count_; ++i) {
      const Tap& tap = taps_[i];
      bool hit = true;
      for (int axis = 0; axis < 3; ++axis) {
        const int at = base[axis] + tap.offset[axis];
        hit = hit && at >= 0 && at < image_[axis];
      }
      *rows = hit ? image + (origin + tap.delta) * depth : zeros;
      rows += pitch;
    }
  }

 private:
  TapMap(Tap* storage, const ConvShape::Spatial& image, const ConvShape::Spatial& multiply,
         const ConvShape::Spatial& divide)
      : image_(image), multiply_(multiply), divide_(divide), taps_(storage) {}

  [[nodiscard]] ConvShape::Spatial scaled(const Pixel& pixel) const {
    return {pixel.d * multiply_[0] / divide_[0], pixel.h * multiply_[1] / divide_[1],
            pixel.w * multiply_[2] / divide_[2]};
  }
  [[nodiscard]] long position(const Pixel& pixel) const {
    const ConvShape::Spatial base = scaled(pixel);
    return ((static_cast<long>(pixel.n) * image_[0] + base[0]) * image_[1] + base[1]) * image_[2] + base[2];
  }

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
    inside_ = true;
    Pixel pixel(lattice, first);
    for (int p = 0; p < count && inside_; ++p, pixel.next(lattice)) inside_ = map_.inside(pixel);
    run_ = inside_ && whole_pixels ? map_.run() : 1;
    pixel = Pixel(lattice, first);
    for (int p = 0; p < count; ++p, pixel.next(lattice)) {
      if (inside_) {
        map_.fill_inside(pixel, image, depth, run_, storage_ + p, width_);
      } else {
        map_.fill(pixel, image, depth, zeros, storage_ + p, width_);
      }
    }
    for (int slot = 0; slot < slots(); ++slot) {
      for (int p = count; p < width_; ++p) storage_[slot * width_ + p] = zeros;
    }
  }

  [[nodiscard]] bool inside() const { return inside_; }
  [[nodiscard]] int run() const { return run_; }
  [[nodiscard]] int slots() const { return map_.taps() / run_; }
  [[nodiscard]] const T** line(int slot) const { return storage_ + slot * width_; }

 private:
  const TapMap& map_;
  const T** storage_;
  int width_;
  bool inside_ = false;
  int run_ = 1;
};

}  // namespace halograd::host
