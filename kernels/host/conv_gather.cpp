#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/gather.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/prefetch.hpp"

namespace halograd::host {
namespace {

/// Where more of what the taps read is in the padding, tiles skip it (ordered).
constexpr double least_inside_share = 0.95;

/// A tile of less depth stores before what it fetches is there: it fetches for a later one.
constexpr int short_depth = 64;
constexpr int tiles_ahead = 3;

/// Scratch of a gather product: the packed right operand, its bias, a row of zeros and a table a task.
template <class T>
struct GatherScratch {
  T* packed;
  T* bias;
  T* zeros;
  const T** tables;
  int* slots;
  long* b_rows;
  Tap* taps;
  GatherScratch(Scratch& scratch, const ConvShape& shape, int depth, int columns)
      : packed(scratch.take<T>(static_cast<long>(shape.groups) * shape.taps() * depth *
                               ColumnBlocks<T>(columns).padded())),
        bias(scratch.take<T>(static_cast<long>(shape.groups) * ColumnBlocks<T>(columns).padded())),
        zeros(scratch.take<T>(std::max(shape.channels, shape.filters))),
        tables(scratch.take<const T*>(static_cast<long>(concurrency()) * shape.taps() * table_pixels)),
        slots(scratch.take<int>(static_cast<long>(concurrency()) * shape.taps())),
        b_rows(scratch.take<long>(static_cast<long>(concurrency()) * shape.taps())),
        taps(scratch.take<Tap>(shape.taps())) {}
};

/// One task's part of GatherScratch::slots and b_rows.
struct TaskLists {
  int* slots;
  long* b_rows;
};

/// Whether a forward pass reads whole blocks of the weights where they are: for so few pixels, packing them would cost
/// more than it saves. Rows a power of two apart would share a few sets of the cache.
template <class T>
bool reads_in_place(const ConvShape& shape) {
  return shape.out_pixels() <= 256 && shape.filters * sizeof(T) % 1024 != 0;
}

/// Packs the weights as the right operand, (group, block, tap, depth, column in block), zero-padded. Forward: depth is
/// C/G, columns are K/G; transposed: the other way round, and taps from last to first, as TapMap::transposed has them.
/// Without `all`, only blocks that are not whole.
template <class T>
void pack_weights(const Exec& exec, const ConvShape& shape, const T* weights, bool transposed, bool all, T* packed) {
  const int in_group = shape.channels / shape.groups;
  const int out_group = shape.filters / shape.groups;
  const int depth = transposed ? out_group : in_group;
  const ColumnBlocks<T> blocks{transposed ? in_group : out_group};
  const int taps = shape.taps();
  const long pitch = shape.filters;
  constexpr int line = 64 / sizeof(T);
  const long units = static_cast<long>(shape.groups) * blocks.count() * taps;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_pack_weights", tasks, [&](int task) {
    const Share share(units, task, tasks);
    for (long unit = share.begin; unit < share.end; ++unit) {
      const int tap = static_cast<int>(unit % taps);
      const int block = static_cast<int>(unit / taps % blocks.count());
      const long group = unit / taps / blocks.count();
      if (!all && blocks.whole(block)) continue;
      const int first = blocks.begin(block);
      const int width = columns_of<T>(blocks.width(block));
      const int columns = std::min(width, blocks.columns - first);
      const T* from = weights + static_cast<long>(tap) * in_group * shape.filters + group * out_group +
                      first * (transposed ? pitch : 1);
      T* to = packed + group * taps * depth * blocks.padded() + static_cast<long>(taps) * depth * first +
              static_cast<long>(transposed ? taps - 1 - tap : tap) * depth * width;
      if (transposed) {  // a line of the weights at a time
        for (int begin = 0; begin < depth; begin += line) {
          const int end = std::min(begin + line, depth);
          for (int c = 0; c < columns; ++c) {
            for (int d = begin; d < end; ++d) to[d * width + c] = from[c * pitch + d];
          }
        }
      } else {
        for (int d = 0; d < depth; ++d) std::copy_n(from + d * pitch, columns, to + d * width);
      }
      if (columns == width) continue;
      for (int d = 0; d < depth; ++d) std::fill(to + d * width + columns, to + (d + 1) * width, T(0));
    }
  });
}

/// A gather product over one lattice of output pixels.
template <class T>
struct GatherProduct {
  const ConvShape* shape;
  const TapMap* map;
  Lattice lattice;
  int depth, columns;  ///< in a group
  const T* in;
  long in_values;  ///< of all images
  long in_pitch;   ///< values per pixel
  Target<T> target;
  long out_pitch;
  bool transposed;
  const T* in_place;  ///< the weights, where whole blocks are read from them; or null

  /// Fetches the part of `in` that the next stretch reads, in `pieces` pieces.
  [[nodiscard]] Prefetch ahead(long stretch, long stretches, long pieces) const {
    if (lattice.images_innermost) return {};  // not one range of memory
    return Prefetch(in, in_values, stretches, stretch + 1, 1, pieces);
  }

  /// From a pixel of a line to the next one in the target.
  [[nodiscard]] long out_step() const { return lattice.line_step() * out_pitch; }

  /// Where pack_weights has put a tap of the map.
  [[nodiscard]] int pack_position(int tap) const {
    const int index = map->tap(tap).kernel_index;
    return transposed ? shape->taps() - 1 - index : index;
  }
};

/// A stretch of pixels and some blocks of columns, [first_block, last_block).
template <class T>
struct GatherStretch {
  const TapTable<T>& table;  ///< what the pixels read
  TaskLists lists;
  const long* out;  ///< (valid): where each pixel is in the target
  int valid;        ///< pixels
  int first_block, last_block;
};

/// The tiles of a stretch, for one group.
template <class T>
void gather_stretch(const GatherProduct<T>& product, const GatherScratch<T>& scratch, const ColumnBlocks<T>& blocks,
                    const GatherStretch<T>& stretch, int group, Prefetch& next) {
  const long taps = product.shape->taps();
  const long out_step = product.out_step();
  const auto& [table, lists, out, valid, first_block, last_block] = stretch;
  for (int block = first_block; block < last_block; ++block) {
    const TileWidth width = blocks.width(block);
    const int begin = blocks.begin(block);
    const long group_column = static_cast<long>(group) * blocks.padded() + begin;
    GatherTile<T> tile{};
    tile.depth = product.depth * table.run();
    tile.slot = lists.slots;
    tile.b_row = lists.b_rows;
    const long first_column = static_cast<long>(group) * product.columns + begin;
    const bool in_place = product.in_place != nullptr && blocks.whole(block);
    tile.b = in_place ? product.in_place + first_column : scratch.packed + taps * product.depth * group_column;
    tile.b_pitch = in_place ? product.shape->filters : columns_of<T>(width);
    tile.bias = scratch.bias + group_column;
    tile.columns = blocks.columns - begin;
    tile.target = product.target.from(first_column);
    const int rows = gather_rows(width);
    for (int p = 0; p < valid; p += rows) {
      // A slot that reads only padding adds nothing: at the border of a small image that is a large part of the work.
      tile.slots = 0;
      for (int slot = 0; slot < table.slots(); ++slot) {
        bool needed = table.inside();
        for (int m = 0; m < rows && !needed; ++m) needed = table.line(slot)[p + m] != scratch.zeros;
        if (needed) lists.slots[tile.slots++] = slot;
      }
      tile.rows = table.line(0) + p;
      tile.out_offset = out + p;
      tile.out_ahead = tile.slots * tile.depth < short_depth ? tiles_ahead * rows * out_step : 0;
      tile.valid_rows = std::min(rows, valid - p);
      tile.ahead = next.over(static_cast<long>(tile.slots) * tile.depth);
      run_tile(width, tile);
    }
  }
}

/// Whether all stretches go through a block of columns before the next one. Few stretches are not of even length: then
/// tasks share out the columns, and read nothing of each other's weights. Otherwise by which way less is read from
/// beyond the second-level cache: the images once for each block, or the weights once for each stretch.
template <class T>
bool goes_by_columns(const GatherProduct<T>& product, long stretches, long blocks) {
  const int tasks = concurrency();
  if (tasks > 1 && stretches < 4L * tasks) return true;
  constexpr long cached = 1L << 18U;  // values
  const long image = product.in_values;
  const long weights = static_cast<long>(product.shape->groups) * product.map->taps() * product.depth * product.columns;
  const auto read = [](long values, long times) { return values > cached ? values * times : values; };
  return read(image, blocks) + weights < image + read(weights, stretches);
}

template <class T>
void gather_product(const Exec& exec, const char* label, const GatherProduct<T>& product,
                    const GatherScratch<T>& scratch) {
  const ColumnBlocks<T> blocks{product.columns};
  const int taps = product.shape->taps();
  const int groups = product.shape->groups;
  const long pixels = product.lattice.pixels();
  const long stretches = (pixels + table_pixels - 1) / table_pixels;
  const int tasks = concurrency();
  const bool by_columns = goes_by_columns(product, stretches, blocks.count());
  parallel_tasks(exec, label, tasks, [&](int task) {
    const Share share(stretches * blocks.count(), task, tasks);
    TapTable<T> table(*product.map, scratch.tables + static_cast<long>(task) * taps * table_pixels, table_pixels);
    const TaskLists lists{scratch.slots + static_cast<long>(task) * taps,
                          scratch.b_rows + static_cast<long>(task) * taps};
    long out[table_pixels];
    for (long unit = share.begin; unit < share.end;) {
      const long first_pixel = (by_columns ? unit % stretches : unit / blocks.count()) * table_pixels;
      const int first_block = static_cast<int>(by_columns ? unit / stretches : unit % blocks.count());
      const int last_block = by_columns
                                 ? first_block + 1
                                 : static_cast<int>(std::min<long>(blocks.count(), first_block + share.end - unit));
      unit += last_block - first_block;
      const int valid = static_cast<int>(std::min<long>(table_pixels, pixels - first_pixel));
      const Lattice& lattice = product.lattice;
      const long out_step = product.out_step();
      for_each_line(lattice, first_pixel, valid, [&](const Pixel& pixel, int at, int length) {
        const long start = pixel.position(lattice) * product.out_pitch;
        for (int i = 0; i < length; ++i) out[at + i] = start + i * out_step;
      });
      table.fill(lattice, first_pixel, valid, product.in, product.in_pitch, groups == 1, scratch.zeros);
      for (int slot = 0; slot < table.slots(); ++slot) {
        lists.b_rows[slot] = static_cast<long>(product.pack_position(slot * table.run())) * product.depth;
      }
      const GatherStretch<T> stretch{table, lists, out, valid, first_block, last_block};
      const int rows = gather_rows(blocks.width(first_block));
      const long tiles = static_cast<long>(groups) * (last_block - first_block) * ((valid + rows - 1) / rows);
      Prefetch next = product.ahead(first_pixel / table_pixels, stretches, tiles);
      for (int group = 0; group < groups; ++group) {
        for (int i = 0; group > 0 && i < table.slots() * table_pixels; ++i) {
          if (table.line(0)[i] != scratch.zeros) table.line(0)[i] += product.depth;
        }
        gather_stretch(product, scratch, blocks, stretch, group, next);
      }
    }
  });
}

}  // namespace

template <class T>
std::size_t gather_workspace(const ConvShape& shape) {
  Scratch forward(nullptr), data(nullptr);
  GatherScratch<T>(forward, shape, shape.channels / shape.groups, shape.filters / shape.groups);
  GatherScratch<T>(data, shape, shape.filters / shape.groups, shape.channels / shape.groups);
  return std::max(forward.used(), data.used());
}

template <class T>
void gather_forward(const Exec& exec, const ConvShape& shape, const T* x, const T* weights, const T* bias, bool relu,
                    T* y, std::byte* workspace) {
  const int depth = shape.channels / shape.groups;
  const int columns = shape.filters / shape.groups;
  const ColumnBlocks<T> blocks{columns};
  Scratch pieces(workspace);
  const GatherScratch<T> scratch(pieces, shape, depth, columns);
  std::fill(scratch.zeros, scratch.zeros + shape.channels, T(0));
  std::fill(scratch.bias, scratch.bias + static_cast<long>(shape.groups) * blocks.padded(), T(0));
  if (bias != nullptr) {
    for (int group = 0; group < shape.groups; ++group) {
      std::copy(bias + static_cast<long>(group) * columns, bias + static_cast<long>(group + 1) * columns,
                scratch.bias + static_cast<long>(group) * blocks.padded());
    }
  }
  const bool in_place = reads_in_place<T>(shape);
  pack_weights(exec, shape, weights, false, !in_place, scratch.packed);
  const TapMap map = TapMap::forward(shape, scratch.taps);
  const Lattice lattice =
      ordered(map, Lattice{shape.batch, shape.out_extent(), {0, 0, 0}, {1, 1, 1}}, least_inside_share);
  gather_product(
      exec, "halograd::conv_forward",
      GatherProduct<T>{&shape, &map, lattice, depth, columns, x, shape.in_pixels() * shape.channels, shape.channels,
                       Target<T>{y, nullptr, false, relu}, shape.filters, false, in_place ? weights : nullptr},
      scratch);
}

template <class T>
void gather_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const T* weights, const T* relu_output,
                          T* dx, bool accumulate, std::byte* workspace) {
  const int depth = shape.filters / shape.groups;
  const int columns = shape.channels / shape.groups;
  Scratch pieces(workspace);
  const GatherScratch<T> scratch(pieces, shape, depth, columns);
  std::fill(scratch.zeros, scratch.zeros + shape.filters, T(0));
  std::fill(scratch.bias, scratch.bias + static_cast<long>(shape.groups) * ColumnBlocks<T>(columns).padded(), T(0));
  pack_weights(exec, shape, weights, true, true, scratch.packed);
  for_each_phase(shape, [&](const ConvShape::Spatial& phase) {
    const TapMap map = TapMap::transposed(shape, phase, scratch.taps);
    const Lattice lattice = ordered(map, Lattice{shape.batch, shape.extent, phase, shape.stride}, least_inside_share);
    gather_product(
        exec, "halograd::conv_backward_data",
        GatherProduct<T>{&shape, &map, lattice, depth, columns, dy, shape.out_pixels() * shape.filters, shape.filters,
                         Target<T>{dx, relu_output, accumulate, false}, shape.channels, true, nullptr},
        scratch);
  });
}

#define HALOGRAD_INSTANTIATE(T)                                                                                       \
  template std::size_t gather_workspace<T>(const ConvShape&);                                                         \
  template void gather_forward<T>(const Exec&, const ConvShape&, const T*, const T*, const T*, bool, T*, std::byte*); \
  template void gather_backward_data<T>(const Exec&, const ConvShape&, const T*, const T*, const T*, T*, bool,        \
                                        std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
