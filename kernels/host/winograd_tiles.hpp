#pragma once

#include <algorithm>

#include "kernels/host/blocking.hpp"
#include "kernels/host/winograd_transforms.hpp"

/// Where the tiles of a Winograd convolution lie, and how their pixels get into and out of the transforms.
namespace halograd::host {

/// The images that a pass reads and writes, (images, height, width, depth or columns), and the tiles over them: tile
/// (n, i, j) computes 4 x 4 outputs from (4 i, 4 j) on, and reads from pixel (4 i - pad, 4 j - pad) on.
///
/// Where the kernel has several slices, images are the slices of volumes: slice s of a volume is the sum over taps t of
/// slice t of the kernel with slice s + t - pad_slices of what is read. Otherwise all images count as one slice.
struct TilePass {
  bool in_volumes;
  int volumes = 1, slices = 1, out_slices = 1;
  int images_of_slice;  ///< 1 in volumes
  int height, width, depth;
  int out_height, out_width, columns;
  int pad_slices, pad_height, pad_width;
  int taps;    ///< slices of the kernel
  int kernel;  ///< r

  [[nodiscard]] int rows() const { return (out_height + winograd_outputs - 1) / winograd_outputs; }
  [[nodiscard]] int row_tiles() const { return (out_width + winograd_outputs - 1) / winograd_outputs; }
  [[nodiscard]] long slice_tiles() const { return static_cast<long>(images_of_slice) * rows() * row_tiles(); }
  [[nodiscard]] long tiles() const { return volumes * out_slices * slice_tiles(); }
  [[nodiscard]] int planes() const { return winograd_planes(kernel); }
  [[nodiscard]] long in_values() const {
    return static_cast<long>(volumes) * slices * images_of_slice * height * width * depth;
  }
  [[nodiscard]] long out_values() const {
    return static_cast<long>(volumes) * out_slices * images_of_slice * out_height * out_width * columns;
  }

  static TilePass forward(const ConvShape& shape) {
    return between(shape, shape.extent, shape.channels, shape.out_extent(), shape.filters, shape.padding);
  }
  /// The gradient with respect to the input is the convolution of dy with the kernel turned by half a turn.
  static TilePass data(const ConvShape& shape) {
    ConvShape::Spatial padding = shape.padding;
    for (int axis = 0; axis < 3; ++axis) padding[axis] = shape.kernel[axis] - 1 - padding[axis];
    return between(shape, shape.out_extent(), shape.filters, shape.extent, shape.channels, padding);
  }

 private:
  static TilePass between(const ConvShape& shape, const ConvShape::Spatial& in, int depth,
                          const ConvShape::Spatial& out, int columns, const ConvShape::Spatial& padding) {
    TilePass pass{};
    pass.in_volumes = shape.kernel[0] > 1 || padding[0] != 0;
    pass.images_of_slice = shape.batch * in[0];
    if (pass.in_volumes) {
      pass.volumes = shape.batch;
      pass.slices = in[0];
      pass.out_slices = out[0];
      pass.images_of_slice = 1;
    }
    pass.height = in[1];
    pass.width = in[2];
    pass.depth = depth;
    pass.out_height = out[1];
    pass.out_width = out[2];
    pass.columns = columns;
    pass.pad_slices = padding[0];
    pass.pad_height = padding[1];
    pass.pad_width = padding[2];
    pass.taps = shape.kernel[0];
    pass.kernel = shape.kernel[1];
    return pass;
  }
};

/// What is transformed and multiplied together: tiles [first, first + count) of each of `slices` written slices of a
/// volume, from `slice` on. They are the rows of a matrix, a slice after the other. The matrix of what they read has
/// the same tiles of taps - 1 more slices, so that tap t starts at row t * count.
struct TileBlock {
  long volume;
  int slice, slices;
  long first;
  int count;

  [[nodiscard]] long rows() const { return static_cast<long>(slices) * count; }
  [[nodiscard]] long rows_read(const TilePass& pass) const { return static_cast<long>(slices + pass.taps - 1) * count; }

  /// Calls visit(tile, count, row) for stretches of rows [begin, end) that lie in one slice: `tile` is the number of
  /// the stretch's first tile among those written.
  template <class Visit>
  void for_written(const TilePass& pass, long begin, long end, const Visit& visit) const {
    for_stretches(begin, end, [&](int row_slice, long tile, int tiles, long row) {
      visit((volume * pass.out_slices + slice + row_slice) * pass.slice_tiles() + tile, tiles, row);
    });
  }
  /// The same among those read, or outside(count, row) where the slice is outside of the volume.
  template <class Visit, class Outside>
  void for_read(const TilePass& pass, long begin, long end, const Visit& visit, const Outside& outside) const {
    for_stretches(begin, end, [&](int row_slice, long tile, int tiles, long row) {
      const int from = slice + row_slice - pass.pad_slices;
      if (from < 0 || from >= pass.slices) return outside(tiles, row);
      visit((volume * pass.slices + from) * pass.slice_tiles() + tile, tiles, row);
    });
  }

 private:
  template <class Visit>
  void for_stretches(long begin, long end, const Visit& visit) const {
    for (long row = begin; row < end;) {
      const long tile = row % count;
      const int tiles = static_cast<int>(std::min(count - tile, end - row));
      visit(static_cast<int>(row / count), first + tile, tiles, row);
      row += tiles;
    }
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

/// Values that a matrix of these rows and columns takes: planes one after the other at this pitch do not all map to
/// the same lines of a cache, as they would at a power of two.
template <class T>
constexpr long plane_pitch(long rows, long columns) {
  constexpr long line = 64 / sizeof(Wide<T>);
  return (rows * columns + line - 1) / line * line + ((rows * columns + line - 1) / line % 2 == 0 ? line : 0);
}

#if defined(HALOGRAD_AVX512)
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
using LaneMask = int;  ///< a number of lanes
template <class T>
LaneMask first_lanes(int count) {
  return count;
}
template <class T>
inline Pack<T> load_lanes(const T* from, LaneMask mask) {
  return load_part<T>(from, mask);
}
#endif

/// An image (images, height, width, channels) cut into patches of size x size pixels, each winograd_outputs
/// pixels after the one before; zero outside.
template <class T>
struct PatchSource {
  const T* data;
  int height, width, channels;
  long pixel;      ///< values from a pixel to the next: the image may have more channels
  int top, left;   ///< pixel at which the first patch starts
  const T* zeros;  ///< a row of a patch
};

/// Whether 0 <= at < extent, in one comparison.
inline bool hits(int at, int extent) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(extent);
}

/// Calls transform(load, to) for patches [first, first + count) of the tiles of a pass and every pack of their
/// channels: load(i, j) is pixel (i, j) of the patch, `to` where plane 0 of the result starts, at (patch, channel).
template <int size, class T, class Transform>
void transform_patches(const PatchSource<T>& source, const TilePass& pass, long first, int count, Wide<T>* to,
                       long to_pitch, const Transform& transform) {
  const long pixel = source.pixel, line = source.width * pixel;
  TileAt at(pass, first);
  for (int t = 0; t < count; ++t, at.next(pass), to += to_pitch) {
    const int h = at.i * winograd_outputs + source.top, w = at.j * winograd_outputs + source.left;
    const bool inside = h >= 0 && w >= 0 && h + size <= source.height && w + size <= source.width;
    const T* row[size];
    const T* from = source.data + ((static_cast<long>(at.n) * source.height + h) * source.width + w) * pixel;
    for (int i = 0; i < size; ++i, from += line) row[i] = hits(h + i, source.height) ? from : source.zeros;
    for (int c = 0; c < source.channels; c += lanes<T>) {
      if (inside && c + lanes<T> <= source.channels) {
        transform([&](int i, int j) { return load<T>(row[i] + (j * pixel + c)); }, to + c);
        continue;
      }
      LaneMask mask[size];
      const LaneMask rest = first_lanes<T>(source.channels - c);
      for (int j = 0; j < size; ++j) {
        mask[j] = hits(w + j, source.width) ? rest : LaneMask{};
      }
      transform([&](int i, int j) { return load_lanes<T>(row[i] + (j * pixel + c), mask[j]); }, to + c);
    }
  }
}

}  // namespace halograd::host
