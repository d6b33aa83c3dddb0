#pragma once

#include <algorithm>

#include "kernels/host/blocking.hpp"
#include "kernels/host/winograd_transforms.hpp"

/// Where the tiles of a Winograd convolution lie, and how their pixels get into and out of the transforms.
namespace halograd::host {

/// The images that a pass reads and writes, (images, height, width, depth or columns), and the tiles over the written
/// ones: tile (n, i, j) computes 4 x 4 outputs from (4 i, 4 j) on, and reads from pixel (4 i - pad, 4 j - pad) on.
struct TilePass {
  int images;
  int height, width, depth;
  int out_height, out_width, columns;
  int pad_height, pad_width;
  int kernel;  ///< r

  [[nodiscard]] int rows() const { return (out_height + winograd_outputs - 1) / winograd_outputs; }
  [[nodiscard]] int row_tiles() const { return (out_width + winograd_outputs - 1) / winograd_outputs; }
  [[nodiscard]] long tiles() const { return static_cast<long>(images) * rows() * row_tiles(); }
  [[nodiscard]] int planes() const { return winograd_planes(kernel); }
  [[nodiscard]] long in_values() const { return static_cast<long>(images) * height * width * depth; }
  [[nodiscard]] long out_values() const { return static_cast<long>(images) * out_height * out_width * columns; }

  static TilePass forward(const ConvShape& shape) {
    const ConvShape::Spatial out = shape.out_extent();
    return {shape.batch * shape.extent[0],
            shape.extent[1],
            shape.extent[2],
            shape.channels,
            out[1],
            out[2],
            shape.filters,
            shape.padding[1],
            shape.padding[2],
            shape.kernel[1]};
  }
  /// The gradient with respect to the input is the convolution of dy with the kernel turned by half a turn.
  static TilePass data(const ConvShape& shape) {
    const ConvShape::Spatial out = shape.out_extent();
    return {shape.batch * shape.extent[0],
            out[1],
            out[2],
            shape.filters,
            shape.extent[1],
            shape.extent[2],
            shape.channels,
            shape.kernel[1] - 1 - shape.padding[1],
            shape.kernel[2] - 1 - shape.padding[2],
            shape.kernel[1]};
  }
};

/// A tile, counted up without divisions.
struct TileAt {
  int n, i, j;
  TileAt(const TilePass& pass, long index)
      : n(static_cast<int>(index / pass.row_tiles() / pass.rows())),
        i(static_cast<int>(index / pass.row_tiles() % pass.rows())),
        j(static_cast<int>(index % pass.row_tiles())) {}
  void next(const TilePass& pass) {
    if (++j < pass.row_tiles()) return;
    j = 0;
    if (++i < pass.rows()) return;
    i = 0;
    ++n;
  }
};

/// Values that a matrix of so many rows and columns takes: planes one after the other at this pitch do not all map to
/// the same lines of a cache, as they would at a power of two.
template <class T>
constexpr long plane_pitch(long rows, long columns) {
  constexpr long line = 64 / sizeof(T);
  return (rows * columns + line - 1) / line * line + ((rows * columns + line - 1) / line % 2 == 0 ? line : 0);
}

#if defined(__AVX512F__)
using LaneMask = unsigned;  ///< a bit a lane
template <class T>
LaneMask first_lanes(int count) {
  return count >= lanes<T> ? ~0U : (1U << std::max(count, 0)) - 1U;
}
template <class T>
inline Pack<T> load_lanes(const T* from, LaneMask mask) {
  return (Pack<T>)masked_load(mask, from);
}
#else
using LaneMask = int;  ///< so many lanes
template <class T>
LaneMask first_lanes(int count) {
  return count;
}
template <class T>
inline Pack<T> load_lanes(const T* from, LaneMask mask) {
  return load_part<Pack<T> >(from, mask);
}
#endif

/// An image (images, height, width, channels) cut into patches of size x size pixels, each winograd_outputs
/// pixels after the one before; zero outside.
template <class T>
struct PatchSource {
  const T* data;
  int height, width, channels;
  int top, left;   ///< pixel at which the first patch starts
  const T* zeros;  ///< a row of a patch
};

/// Calls transform(load, to) for patches [first, first + count) of the tiles of a pass and every pack of their
/// channels: load(i, j) is pixel (i, j) of the patch, `to` where plane 0 of the result starts, at (patch, channel).
template <int size, class T, class Transform>
void transform_patches(const PatchSource<T>& source, const TilePass& pass, long first, int count, T* to, long to_pitch,
                       const Transform& transform) {
  const long pixel = source.channels;
  TileAt at(pass, first);
  for (int t = 0; t < count; ++t, at.next(pass), to += to_pitch) {
    const int h = at.i * winograd_outputs + source.top, w = at.j * winograd_outputs + source.left;
    const bool inside = h >= 0 && w >= 0 && h + size <= source.height && w + size <= source.width;
    const T* row[size];
    for (int i = 0; i < size; ++i) {
      const bool hit = h + i >= 0 && h + i < source.height;
      row[i] = hit ? source.data + ((static_cast<long>(at.n) * source.height + h + i) * source.width + w) * pixel
                   : source.zeros;
    }
    for (int c = 0; c < source.channels; c += lanes<T>) {
      if (inside && c + lanes<T> <= source.channels) {
        transform([&](int i, int j) { return load<T>(row[i] + (j * pixel + c)); }, to + c);
        continue;
      }
      LaneMask mask[size];
      for (int j = 0; j < size; ++j) {
        mask[j] = first_lanes<T>(w + j >= 0 && w + j < source.width ? source.channels - c : 0);
      }
      transform([&](int i, int j) { return load_lanes<T>(row[i] + (j * pixel + c), mask[j]); }, to + c);
    }
  }
}

/// Columns in blocks of two packs, the last of one or two: what multiply_panel takes.
template <class T>
struct PanelBlocks {
  int columns;
  static constexpr int width = 2 * lanes<T>;
  [[nodiscard]] int count() const { return (columns + width - 1) / width; }
  [[nodiscard]] int begin(int block) const { return block * width; }
  [[nodiscard]] int packs(int block) const {
    return (std::min(columns - begin(block), width) + lanes<T> - 1) / lanes<T>;
  }
};

}  // namespace halograd::host
