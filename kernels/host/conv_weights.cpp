#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/gather.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/prefetch.hpp"

namespace halograd::host {
namespace {

/// Pixels that the weight gradient takes at a time, at most: its tables stay in the second-level cache, a panel of dy
/// in the first one.
constexpr int gradient_pixels = simd_registers >= 32 ? 128 : 192;
/// Pixels of x and dy often lie so far apart that few sets of the caches would hold them all. From so many rows of the
/// gradient on, a copy of dy in panels pays, and from so many blocks of columns on one of x, tile by tile, of at most
/// packed_rows rows at a time, which stay in the second-level cache while they serve all columns.
constexpr long many_rows = 48, many_blocks = 8, packed_rows = 256;
/// Values of the partial gradients at most, and their number.
constexpr long most_partial_values = 32768;
constexpr long most_parts = 16;

/// The stretches that a number of pixels is cut into. They have the same length, to a pixel: each takes the whole
/// gradient from memory and back, so that a short one would cost as much as the others.
long stretches_of(long pixels) {
  return (pixels + gradient_pixels - 1) / gradient_pixels;
}

/// The pixels are cut into parts, each with a gradient of its own, added up in order: few weights give too few
/// tiles to share among tasks. The number depends on the shape alone, so that the result does not depend on the number
/// of threads.
int pixel_parts(const ConvShape& shape) {
  return static_cast<int>(std::max<long>(
      1, std::min({most_parts, most_partial_values / shape.weights(), stretches_of(shape.out_pixels())})));
}

long gradient_rows(const ConvShape& shape) {
  return static_cast<long>(shape.taps()) * (shape.channels / shape.groups);
}
bool packs_dy(const ConvShape& shape) {
  return gradient_rows(shape) >= many_rows;
}
/// Whether tiles are all of the widest kind, too.
template <class T>
bool packs_x(const ConvShape& shape) {
  constexpr int columns = columns_of<T>({largest_tile_packs, false});
  return shape.groups == 1 && shape.channels >= many_rows && shape.filters >= many_blocks * columns &&
         shape.filters % columns == 0;
}
constexpr int packed_tile = outer_rows({largest_tile_packs, false});

template <class T>
struct GradientScratch {
  int parts, bias_length;
  T* zeros;
  const T** tables;
  T* packed_x;      ///< of each task: (tiles of rows, gradient_pixels, packed_tile)
  T* dy;            ///< a task's copy: panels, or the last pixels, readable beyond them
  T* partial;       ///< (parts, weights), where there is more than one part
  T* partial_bias;  ///< (parts, groups, padded columns)
  Tap* taps;
  GradientScratch(Scratch& scratch, const ConvShape& shape)
      : parts(pixel_parts(shape)),
        bias_length(shape.groups * ColumnBlocks<T>(shape.filters / shape.groups).padded()),
        zeros(scratch.take<T>(shape.channels)),
        tables(scratch.take<const T*>(static_cast<long>(concurrency()) * shape.taps() * gradient_pixels)),
        packed_x(scratch.take<T>(packs_x<T>(shape) ? concurrency() * packed_length : 0)),
        dy(scratch.take<T>(concurrency() * dy_length(shape))),
        partial(scratch.take<T>(parts > 1 ? parts * shape.weights() : 0)),
        partial_bias(scratch.take<T>(static_cast<long>(parts) * bias_length)),
        taps(scratch.take<Tap>(shape.taps())) {}
  static constexpr long packed_length = gradient_pixels * (packed_rows + packed_tile - 1);
  static long dy_length(const ConvShape& shape) {
    const long columns = ColumnBlocks<T>(shape.filters / shape.groups).padded();
    return packs_dy(shape) ? gradient_pixels * shape.groups * columns : gradient_pixels * shape.filters + lanes<T>;
  }
};

/// Rows (tap, channel of a group) [first_row, last_row) of the gradient of one part of the pixels.
template <class T>
struct GradientPart {
  Share pixels;
  long first_row, last_row;
  T* gradient;  ///< (rows, filters)
  T* bias;      ///< (groups, padded columns), or null
};

template <class T>
class WeightGradient {
 public:
  WeightGradient(const ConvShape& shape, const T* x, const T* dy, const GradientScratch<T>& scratch)
      : shape_(shape),
        x_(x),
        dy_(dy),
        scratch_(scratch),
        blocks_(shape.filters / shape.groups),
        map_(TapMap::forward(shape, scratch.taps)),
        lattice_{shape.batch, shape.out_extent(), {0, 0, 0}, {1, 1, 1}} {}

  void compute(const GradientPart<T>& part, int task) const {
    TapTable<T> table(map_, scratch_.tables + static_cast<long>(task) * shape_.taps() * gradient_pixels,
                      gradient_pixels);
    const T* packed[gradient_pixels];
    for (int p = 0; packs_x<T>(shape_) && p < gradient_pixels; ++p) packed[p] = packed_x(task) + p * packed_tile;
    const int stretches = static_cast<int>(stretches_of(part.pixels.end - part.pixels.begin));
    for (int stretch = 0; stretch < stretches; ++stretch) {
      const Share pixels(part.pixels.end - part.pixels.begin, stretch, stretches);
      const long first = part.pixels.begin + pixels.begin;
      const int count = static_cast<int>(pixels.end - pixels.begin);
      table.fill(lattice_, first, count, x_, shape_.channels, shape_.groups == 1, scratch_.zeros);
      const Stretch some{table, packs_x<T>(shape_) ? packed : nullptr,
                         packs_dy(shape_) ? panels_of_dy(first, count, task) : readable_dy(first, count, task), count,
                         first > part.pixels.begin};
      Ahead next = ahead(part, first + count);
      GradientPart<T> rows = part;
      for (; rows.first_row < part.last_row; rows.first_row = rows.last_row, rows.bias = nullptr) {
        rows.last_row = part.last_row;
        if (packs_x<T>(shape_)) {
          rows.last_row = std::min({rows.first_row + packed_rows, end_of_slot(table, rows.first_row), part.last_row});
          pack_x(rows, table, count, packed_x(task));
        }
        for (int group = 0; group < shape_.groups; ++group) {
          for (int block = 0; block < blocks_.count(); ++block) {
            add_block(rows, some, group, block, next);
          }
        }
      }
    }
  }

 private:
  /// Some pixels, and what is there of them.
  struct Stretch {
    const TapTable<T>& table;
    const T* const* packed;  ///< (count): where the copy of x has them; null: there is none
    const T* right;          ///< dy, or the copy in panels
    int count;
    bool accumulate;
  };
  /// The rows of the gradient that one line of the table gives.
  [[nodiscard]] long rows_of_slot(const TapTable<T>& table) const {
    return table.run() * static_cast<long>(shape_.channels / shape_.groups);
  }
  [[nodiscard]] long end_of_slot(const TapTable<T>& table, long row) const {
    return (row / rows_of_slot(table) + 1) * rows_of_slot(table);
  }

  /// What the tiles read next, fetched while they work.
  struct Ahead {
    Prefetch x, dy;
  };
  [[nodiscard]] Ahead ahead(const GradientPart<T>& part, long first) const {
    const long count = std::min<long>(gradient_pixels, part.pixels.end - first), all = lattice_.pixels();
    const long tiles = (part.last_row - part.first_row) * blocks_.count() / outer_rows(blocks_.width(0)) + 1;
    return {Prefetch(x_, shape_.in_pixels() * shape_.channels, all, first, count, tiles),
            Prefetch(dy_, all * shape_.filters, all, first, count, tiles)};
  }

  /// The gradients of pixels [first, first + count): a tile may read a little beyond them.
  const T* readable_dy(long first, int count, int task) const {
    const T* const from = dy_ + first * shape_.filters;
    if (first + count < lattice_.pixels() || blocks_.padded() == blocks_.columns) return from;
    T* const copy = scratch_.dy + task * GradientScratch<T>::dy_length(shape_);
    const long length = static_cast<long>(count) * shape_.filters;
    std::copy(from, from + length, copy);
    std::fill(copy + length, copy + length + lanes<T>, T(0));
    return copy;
  }

  /// The same, block of columns by block: (count, columns of the block).
  const T* panels_of_dy(long first, int count, int task) const {
    T* const panels = scratch_.dy + task * GradientScratch<T>::dy_length(shape_);
    for (int p = 0; p < count; ++p) {
      const T* from = dy_ + (first + p) * shape_.filters;
      for (int group = 0; group < shape_.groups; ++group, from += blocks_.columns) {
        for (int block = 0; block < blocks_.count(); ++block) {
          const int begin = blocks_.begin(block), columns = columns_of<T>(blocks_.width(block));
          T* const to = panels + (static_cast<long>(group) * blocks_.padded() + begin) * count + p * columns;
          const int valid = std::min(columns, blocks_.columns - begin);
          std::fill(std::copy_n(from + begin, valid, to), to + columns, T(0));
        }
      }
    }
    return panels;
  }

  [[nodiscard]] T* packed_x(int task) const { return scratch_.packed_x + task * GradientScratch<T>::packed_length; }

  /// Copies x for these rows, which are of one slot.
  void pack_x(const GradientPart<T>& part, const TapTable<T>& table, int count, T* packed) const {
    const long slot = part.first_row / rows_of_slot(table), rows = part.last_row - part.first_row;
    const int tiles = static_cast<int>((rows + packed_tile - 1) / packed_tile);
    for (int p = 0; p < count; ++p) {
      const T* const from = table.line(static_cast<int>(slot))[p] + part.first_row - slot * rows_of_slot(table);
      T* to = packed + p * packed_tile;
      for (int i = 0; i < tiles; ++i, to += count * packed_tile) {
        const Share share(rows, i, tiles);
        if (share.end - share.begin == packed_tile) {  // a copy of a length that is known
          std::copy_n(from + share.begin, packed_tile, to);
        } else {
          std::copy(from + share.begin, from + share.end, to);
        }
      }
    }
  }

  void add_block(const GradientPart<T>& part, const Stretch& stretch, int group, int block, Ahead& next) const {
    const auto& [table, packed, right, count, accumulate] = stretch;
    const TileWidth width = blocks_.width(block);
    const long begin = blocks_.begin(block);
    const long column = static_cast<long>(group) * blocks_.columns + begin;
    OuterTile<T> tile{};
    tile.pixels = count;
    tile.right = right + column;
    tile.right_pitch = shape_.filters;
    tile.out_pitch = shape_.filters;
    tile.accumulate = accumulate;
    tile.ahead_left = tile.ahead_right = Prefetch().over(1);
    if (packs_dy(shape_)) {
      tile.right = right + (static_cast<long>(group) * blocks_.padded() + begin) * count;
      tile.right_pitch = columns_of<T>(width);
    }
    if (part.bias != nullptr) {  // a row of weights whose input is one
      const T one(1);
      const T* ones[gradient_pixels];
      std::fill(ones, ones + count, &one);
      tile.left = ones;
      tile.out = part.bias + static_cast<long>(group) * blocks_.padded() + begin;
      tile.columns = columns_of<T>(width);
      run_tile(width, tile, 1);
    }
    tile.columns = static_cast<int>(blocks_.columns - begin);
    const long in_group = shape_.channels / shape_.groups;
    for (long row = part.first_row; row < part.last_row;) {
      // The rows of one slot, evenly in tiles: a tile reads through one line of the table.
      const long slot = row / rows_of_slot(table);
      const long rows = std::min(end_of_slot(table, row), part.last_row) - row;
      const int tiles = static_cast<int>((rows + outer_rows(width) - 1) / outer_rows(width));
      tile.left = packed != nullptr ? packed : table.line(static_cast<int>(slot));
      for (int i = 0; i < tiles; ++i) {
        const Share share(rows, i, tiles);
        tile.left_offset = packed != nullptr ? static_cast<long>(i) * count * packed_tile
                                             : row + share.begin - slot * rows_of_slot(table) + group * in_group;
        tile.out = part.gradient + (row + share.begin) * shape_.filters + column;
        tile.ahead_left = next.x.over(count);
        tile.ahead_right = next.dy.over(count);
        run_tile(width, tile, static_cast<int>(share.end - share.begin));
      }
      row += rows;
    }
  }

  const ConvShape& shape_;
  const T* x_;
  const T* dy_;
  const GradientScratch<T>& scratch_;
  ColumnBlocks<T> blocks_;
  TapMap map_;
  Lattice lattice_;
};

}  // namespace

template <class T>
std::size_t outer_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  GradientScratch<T>(scratch, shape);
  return scratch.used();
}

template <class T>
void outer_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, T* dweights, T* dbias,
                            std::byte* workspace) {
  Scratch pieces(workspace);
  const GradientScratch<T> scratch(pieces, shape);
  std::fill(scratch.zeros, scratch.zeros + shape.channels, T(0));
  const WeightGradient<T> gradient(shape, x, dy, scratch);
  const long rows = gradient_rows(shape);
  const int tasks = concurrency();
  // A task owns a contiguous share of all rows of all parts.
  parallel_tasks(exec, "halograd::conv_backward_weights", tasks, [&](int task) {
    const Share share(scratch.parts * rows, task, tasks);
    for (long unit = share.begin; unit < share.end;) {
      const long index = unit / rows;
      const long first = unit - index * rows;
      const long last = std::min(rows, share.end - index * rows);
      const bool with_bias = dbias != nullptr && first == 0;
      gradient.compute({Share(shape.out_pixels(), static_cast<int>(index), scratch.parts), first, last,
                        scratch.parts > 1 ? scratch.partial + index * shape.weights() : dweights,
                        with_bias ? scratch.partial_bias + index * scratch.bias_length : nullptr},
                       task);
      unit += last - first;
    }
  });
  if (scratch.parts > 1) add_parts(exec, scratch.partial, scratch.parts, shape.weights(), shape.weights(), dweights);
  if (dbias == nullptr) return;
  add_parts(exec, scratch.partial_bias, scratch.parts, scratch.bias_length, scratch.bias_length, scratch.partial_bias);
  const int columns = shape.filters / shape.groups;
  for (int group = 0; group < shape.groups; ++group) {
    const T* const from = scratch.partial_bias + static_cast<long>(group) * (scratch.bias_length / shape.groups);
    std::copy(from, from + columns, dbias + static_cast<long>(group) * columns);
  }
}

#define HALOGRAD_INSTANTIATE(T)                              \
  template std::size_t outer_workspace<T>(const ConvShape&); \
  template void outer_backward_weights<T>(const Exec&, const ConvShape&, const T*, const T*, T*, T*, std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
