#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/narrow.hpp"

namespace halograd::host {
namespace {

/// The weight gradient is cut into parts of the rows of y, as the shape alone decides, each with sums of its own that
/// are added up in order.
constexpr long most_narrow_parts = 16, most_narrow_values = 65536;
/// Rows of y that a tile goes through before the next one does: they stay in the first-level cache.
constexpr long kept_rows_values = 4096;
constexpr int most_tile_rows = 12;

/// Some rows of the weight gradient in a block of columns: for each row of y, of each pixel p of it, left[p][m] *
/// right[p][column] is added to out[m][column].
template <class T>
struct NarrowGradientTile {
  const Wide<T>* const* left;  ///< (lines): where the first pixel reads
  long left_offset;            ///< of the first row from there
  const T* const* right;       ///< (lines): the first pixel's dy, readable for all columns of the tile
  long right_offset;           ///< of the tile's columns from there
  long lines, pixels;
  long distance, filters;  ///< from a pixel to the next one
  Wide<T>* out;
  long out_pitch;
};

template <int rows, int V, bool half, class T>
void add_tile(const NarrowGradientTile<T>& tile) {
  TileSums<Wide<T>, rows, V, half> sum;
  sum.start(tile.out, tile.out_pitch);
  for (long line = 0; line < tile.lines; ++line) {
    const Wide<T>* a = tile.left[line] + tile.left_offset;
    const T* b = tile.right[line] + tile.right_offset;
    for (long p = 0; p < tile.pixels; ++p, a += tile.distance, b += tile.filters) {
      sum.add(b, [a](int m) { return a[m]; });
    }
  }
  sum.write(rows, [&tile](auto pack, int m, int column) { store_pack(pack, tile.out + m * tile.out_pitch + column); });
}

template <int V, bool half, class T, int rows = most_tile_rows>
void add_rows(int count, const NarrowGradientTile<T>& tile) {
  if constexpr (rows > 1) {
    if (count < rows) return add_rows<V, half, T, rows - 1>(count, tile);
  }
  add_tile<rows, V, half>(tile);
}
template <class T>
void add_width(TileWidth width, int rows, const NarrowGradientTile<T>& tile) {
  if constexpr (has_half_packs) {
    if (width.half && width.packs == 0) return add_rows<0, true>(rows, tile);
    if (width.half) return add_rows<1, true>(rows, tile);
  }
  if constexpr (narrow_packs > 1) {
    if (width.packs == 2) return add_rows<2, false>(rows, tile);
  }
  add_rows<1, false>(rows, tile);
}

/// Adds dy of all lines and pixels to sums (padded).
template <class T>
void add_columns(const NarrowGradientTile<T>& tile, int padded, Wide<T>* sums) {
  constexpr int chains = 4;  // a single one would wait for each of its sums
  for (int column = 0; column < padded; column += lanes<T>) {
    Pack<T> sum[chains] = {};
    for (long line = 0; line < tile.lines; ++line) {
      const T* from = tile.right[line] + column;
      long p = 0;
      for (; p + chains <= tile.pixels; p += chains) {
        for (int i = 0; i < chains; ++i, from += tile.filters) sum[i] += load<T>(from);
      }
      for (; p < tile.pixels; ++p, from += tile.filters) sum[0] += load<T>(from);
    }
    const Pack<T> all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    const int count = std::min(lanes<T>, padded - column);
    store_part(load_part(sums + column, count) + all, sums + column, count);
  }
}

/// What a part has: (taps, channels, columns of all blocks), then the bias.
long part_values(const ConvShape& shape, int padded) {
  return (static_cast<long>(shape.taps()) * shape.channels + 1) * padded;
}
template <class T>
int narrow_parts(const ConvShape& shape, const ColumnBlocks<T>& blocks) {
  return static_cast<int>(
      std::max(1L, std::min({most_narrow_parts, most_narrow_values / part_values(shape, blocks.padded()),
                             NarrowGeometry(shape).rows()})));
}
long kept_rows(const ConvShape& shape) {
  return std::max(1L, kept_rows_values / (static_cast<long>(shape.out_extent()[2]) * shape.filters));
}

template <class T>
struct NarrowGradientScratch {
  int parts;
  Wide<T>* sums;  ///< of the parts
  const Wide<T>** left;
  const T** right;
  T* last_row;  ///< of dy, readable beyond its end
  NarrowGradientScratch(Scratch& scratch, const ConvShape& shape, const ColumnBlocks<T>& blocks)
      : parts(narrow_parts(shape, blocks)),
        sums(scratch.take<Wide<T>>(parts * part_values(shape, blocks.padded()))),
        left(scratch.take<const Wide<T>*>(concurrency() * kept_rows(shape))),
        right(scratch.take<const T*>(concurrency() * kept_rows(shape))),
        last_row(scratch.take<T>(static_cast<long>(shape.out_extent()[2]) * shape.filters + 2L * lanes<T>)) {}
};

}  // namespace

bool has_narrow_weights(const ConvShape& shape) {
  return is_narrow(shape) && shape.filters <= narrow_packs * lanes<float>;
}

template <class T>
std::size_t narrow_weights_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  NarrowGradientScratch<T>(scratch, shape, ColumnBlocks<T>(shape.filters, narrow_packs));
  return scratch.used();
}

template <class T>
void narrow_backward_weights(const Exec& exec, const ConvShape& shape, const Wide<T>* x, const T* dy, Wide<T>* dweights,
                             Wide<T>* dbias, std::byte* workspace) {
  const ColumnBlocks<T> blocks(shape.filters, narrow_packs);
  Scratch pieces(workspace);
  const NarrowGradientScratch<T> scratch(pieces, shape, blocks);
  const NarrowGeometry geometry(shape);
  const ConvShape::Spatial& out = geometry.out;
  const int padded = blocks.padded(), depth = shape.kernel[2] * shape.channels;
  const long lines = geometry.rows(), row_values = static_cast<long>(out[2]) * shape.filters;
  const long values = part_values(shape, padded), weight_rows = static_cast<long>(shape.taps()) * shape.channels;
  std::fill(std::copy_n(dy + (lines - 1) * row_values, row_values, scratch.last_row),
            scratch.last_row + row_values + 2L * lanes<T>, T(0));
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_narrow_weights", tasks, [&](int task) {
    const Share parts(scratch.parts, task, tasks);
    const Wide<T>** const left = scratch.left + task * kept_rows(shape);
    const T** const right = scratch.right + task * kept_rows(shape);
    for (long part = parts.begin; part < parts.end; ++part) {
      Wide<T>* const sums = scratch.sums + part * values;
      std::fill_n(sums, values, Wide<T>(0));
      const Share own(lines, static_cast<int>(part), scratch.parts);
      for (long first = own.begin; first < own.end; first += kept_rows(shape)) {
        const long count = std::min(kept_rows(shape), own.end - first);
        for (long i = 0; i < count; ++i) {
          left[i] = x + geometry.row_begin(first + i);
          right[i] = first + i + 1 < lines ? dy + (first + i) * row_values : scratch.last_row;
        }
        NarrowGradientTile<T> tile{left, 0, right, 0, count, out[2], geometry.distance, shape.filters, nullptr, padded};
        for (int block = 0; block < blocks.count(); ++block) {
          tile.right_offset = blocks.begin(block);
          for (int slot = 0; slot < geometry.slots; ++slot) {
            const int tiles = (depth + most_tile_rows - 1) / most_tile_rows;
            for (int i = 0; i < tiles; ++i) {
              const Share rows(depth, i, tiles);
              tile.left_offset = geometry.slot_begin(slot) + rows.begin;
              tile.out = sums + (static_cast<long>(slot) * depth + rows.begin) * padded + blocks.begin(block);
              add_width(blocks.width(block), static_cast<int>(rows.end - rows.begin), tile);
            }
          }
        }
        if (dbias != nullptr) add_columns(tile, padded, sums + weight_rows * padded);
      }
    }
  });
  add_parts(exec, scratch.sums, scratch.parts, values, values, scratch.sums);
  for (long row = 0; row < weight_rows; ++row) {
    std::copy_n(scratch.sums + row * padded, shape.filters, dweights + row * shape.filters);
  }
  if (dbias != nullptr) std::copy_n(scratch.sums + weight_rows * padded, shape.filters, dbias);
}

#define HALOGRAD_INSTANTIATE(T)                                                                               \
  template std::size_t narrow_weights_workspace<T>(const ConvShape&);                                         \
  template void narrow_backward_weights<T>(const Exec&, const ConvShape&, const Wide<T>*, const T*, Wide<T>*, \
                                           Wide<T>*, std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
