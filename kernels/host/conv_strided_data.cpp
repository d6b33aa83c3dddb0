#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/gather.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/prefetch.hpp"

/// The data gradient of few channels with stride 2 x 2. The pixels of dx have four phases, (row, column) modulo 2, each
/// with taps of its own; here a register tile has all four of some neighbours: dx is stored in one go, and what is read
/// of dy serves every phase that has a tap there.
namespace halograd::host {
namespace {

constexpr int phases = 4;
/// Most channels for which this is the faster way: with more, tiles of four packs and one phase are as good. Of 16
/// registers a tile has too few sums for a source that one phase reads alone.
constexpr int most_strided_channels = simd_registers >= 32 ? 32 : 16;
/// A tile has one pack of columns: with two, of half the pixels, the weights of 32 channels and 64 filters would come
/// from the second-level cache for each.
constexpr int strided_packs = 1;
/// Pixels of each phase in a tile: their sums, a value of dy for each and one row of weights fill the registers.
constexpr int strided_pixels = (simd_registers - 1) / (phases + 1);
static_assert(table_pixels % strided_pixels == 0);
/// Where less of dy is inside the image, tiles have the same pixels of many images, and skip what all of them have not.
/// Row by row, dx is one stretch of memory.
constexpr double least_strided_inside_share = 0.8;

/// A pixel of dy that taps of some phases read, relative to those of dx.
struct Source {
  int kernel_index[phases];  ///< of the phase's tap there, or -1
  int mask;                  ///< a bit for each phase that has one
  long begin;                ///< row of the packed weights: (depth, phase of the mask)
};

template <class T>
struct StridedScratch {
  T* packed;  ///< (block, source, depth, phase of its mask, column in block)
  T* zeros;
  const T** tables;
  Tap* taps;
  Tap* phase_taps;
  Source* sources;
  StridedScratch(Scratch& scratch, const ConvShape& shape)
      : packed(scratch.take<T>(static_cast<long>(shape.taps()) * shape.filters *
                               ColumnBlocks<T>(shape.channels, strided_packs).padded())),
        zeros(scratch.take<T>(shape.filters)),
        tables(scratch.take<const T*>(static_cast<long>(concurrency()) * shape.taps() * table_pixels)),
        taps(scratch.take<Tap>(shape.taps())),
        phase_taps(scratch.take<Tap>(shape.taps())),
        sources(scratch.take<Source>(shape.taps())) {}
};

/// Fills in what the phases of one depth do with the taps of the map; returns the rows of the packed weights.
template <class T>
long find_sources(const ConvShape& shape, const TapMap& map, int depth_phase, const StridedScratch<T>& scratch) {
  for (int s = 0; s < map.taps(); ++s) scratch.sources[s] = Source{{-1, -1, -1, -1}, 0, 0};
  for (int phase = 0; phase < phases; ++phase) {
    const TapMap own = TapMap::transposed(shape, {depth_phase, phase / 2, phase % 2}, scratch.phase_taps);
    for (int t = 0; t < own.taps(); ++t) {
      int s = 0;
      while (map.tap(s).offset != own.tap(t).offset) ++s;
      scratch.sources[s].kernel_index[phase] = own.tap(t).kernel_index;
      scratch.sources[s].mask |= 1 << phase;
    }
  }
  long rows = 0;
  for (int s = 0; s < map.taps(); ++s) {
    scratch.sources[s].begin = rows;
    rows += static_cast<long>(__builtin_popcount(scratch.sources[s].mask)) * shape.filters;
  }
  return rows;
}

template <class T>
void pack_sources(const Exec& exec, const ConvShape& shape, const T* weights, const ColumnBlocks<T>& blocks,
                  int sources, long rows, const StridedScratch<T>& scratch) {
  const long units = static_cast<long>(blocks.count()) * sources;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_pack_weights", tasks, [&](int task) {
    const Share share(units, task, tasks);
    for (long unit = share.begin; unit < share.end; ++unit) {
      const Source& source = scratch.sources[unit % sources];
      const int block = static_cast<int>(unit / sources), first = blocks.begin(block);
      const int width = columns_of<T>(blocks.width(block));
      const int columns = std::min(width, blocks.columns - first);
      T* to = scratch.packed + rows * first + source.begin * width;
      for (int d = 0; d < shape.filters; ++d) {
        for (const int index : source.kernel_index) {
          if (index < 0) continue;
          const T* const from = weights + (static_cast<long>(index) * shape.channels + first) * shape.filters + d;
          for (int c = 0; c < columns; ++c) to[c] = from[static_cast<long>(c) * shape.filters];
          std::fill(to + columns, to + width, T(0));
          to += width;
        }
      }
    }
  });
}

/// One tile of dx: all phases of some pixels of phase 0, in a block of columns.
template <class T>
struct StridedTile {
  int source_count;
  const Source* sources;
  int depth;             ///< values read at a source
  const T* const* rows;  ///< (sources, table_pixels): where a pixel reads
  const T* zeros;        ///< what it reads outside of dy
  const T* weights;
  Target<T> target;
  const long* out;            ///< (valid): where phase 0 of a pixel is in the target
  long phase_offset[phases];  ///< from there
  const int* stored;          ///< (valid): a bit for each phase that is stored
  int valid;
  int columns;  ///< valid ones
};

/// What one source gives to the phases of the mask.
template <int mask, class T, int V, bool half>
inline void add_source(const T* const (&row)[strided_pixels], int depth, const T* weights,
                       TileSums<T, strided_pixels, V, half> (&sum)[phases]) {
  constexpr int width = columns_of<T>({V, half});
  for (int d = 0; d < depth; ++d) {
    const auto left = [&row, d](int m) { return row[m][d]; };
#pragma GCC unroll 4
    for (int phase = 0; phase < phases; ++phase) {
      if ((mask >> phase & 1) == 0) continue;
      sum[phase].add(weights, left);
      weights += width;
    }
  }
}

template <int V, bool half, class T>
void compute_tile(const StridedTile<T>& tile) {
  using Sums = TileSums<T, strided_pixels, V, half>;
  constexpr int width = columns_of<T>({V, half});
  Sums sum[phases];
#pragma GCC unroll 4
  for (Sums& phase_sum : sum) phase_sum.start_at_zero();
  if (tile.target.reads()) {
    for (int m = 0; m < tile.valid; ++m) {
      for (int phase = 0; phase < phases; ++phase) {
        if (tile.stored[m] >> phase & 1) tile.target.prefetch(tile.out[m] + tile.phase_offset[phase], lanes<T>);
      }
    }
  }
  for (int s = 0; s < tile.source_count; ++s) {
    const T* row[strided_pixels];
    bool needed = false;
#pragma GCC unroll 8
    for (int m = 0; m < strided_pixels; ++m) {
      row[m] = tile.rows[s * table_pixels + m];
      needed = needed || row[m] != tile.zeros;
    }
    if (!needed) continue;
    const T* const weights = tile.weights + tile.sources[s].begin * width;
    // Rows of the phases that a source has taps for, by columns of them.
    switch (tile.sources[s].mask) {
      case 0b0001:
        add_source<0b0001>(row, tile.depth, weights, sum);
        break;
      case 0b0010:
        add_source<0b0010>(row, tile.depth, weights, sum);
        break;
      case 0b0011:
        add_source<0b0011>(row, tile.depth, weights, sum);
        break;
      case 0b0100:
        add_source<0b0100>(row, tile.depth, weights, sum);
        break;
      case 0b1000:
        add_source<0b1000>(row, tile.depth, weights, sum);
        break;
      case 0b1100:
        add_source<0b1100>(row, tile.depth, weights, sum);
        break;
      case 0b0101:
        add_source<0b0101>(row, tile.depth, weights, sum);
        break;
      case 0b1010:
        add_source<0b1010>(row, tile.depth, weights, sum);
        break;
      default:
        add_source<0b1111>(row, tile.depth, weights, sum);
    }
  }
  const auto write = [&tile](const Sums(&done)[phases], const auto& store) {
#pragma GCC unroll 4
    for (int phase = 0; phase < phases; ++phase) {
      done[phase].write(tile.valid, [&](auto pack, int m, int column) {
        if (tile.stored[m] >> phase & 1) store(pack, tile.out[m] + tile.phase_offset[phase] + column, column);
      });
    }
  };
  Sums done[phases];  // what lambdas refer to is in memory: not the sums of the loop above
#pragma GCC unroll 4
  for (int phase = 0; phase < phases; ++phase) done[phase] = sum[phase];
  if (tile.columns >= width) {
    tile.target.store_whole(
        [&](const auto& store_pack) { write(done, [&](auto pack, long at, int) { store_pack(pack, at); }); });
  } else {
    write(done, [&tile](auto pack, long at, int column) { tile.target.store(pack, at, tile.columns - column); });
  }
}

/// The pixels of dx with one phase of the depth.
template <class T>
struct StridedProduct {
  const ConvShape& shape;
  const TapMap& map;  ///< of all sources
  const ColumnBlocks<T>& blocks;
  int depth_phase;
  const T* dy;
  long packed_rows;  ///< rows of the packed weights
  Target<T> target;
};

template <class T>
void strided_product(const Exec& exec, const StridedProduct<T>& product, const StridedScratch<T>& scratch) {
  const ConvShape& shape = product.shape;
  const TapMap& map = product.map;
  const ColumnBlocks<T>& blocks = product.blocks;
  const T* const dy = product.dy;
  const Target<T>& target = product.target;
  const Lattice lattice = ordered(map, Lattice{shape.batch, shape.extent, {product.depth_phase, 0, 0}, shape.stride},
                                  least_strided_inside_share);
  const long pixels = lattice.pixels(), pitch = shape.channels;
  const long stretches = (pixels + table_pixels - 1) / table_pixels;
  int with_taps = 0;
  for (int s = 0; s < map.taps(); ++s) with_taps |= scratch.sources[s].mask;
  // A phase without taps is zero.
  const int changed = target.accumulate && target.relu_output == nullptr ? with_taps : (1 << phases) - 1;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_backward_data", tasks, [&](int task) {
    const Share share(stretches, task, tasks);
    TapTable<T> table(map, scratch.tables + static_cast<long>(task) * shape.taps() * table_pixels, table_pixels);
    long out[table_pixels];
    int stored[table_pixels];
    StridedTile<T> tile{};
    tile.source_count = map.taps();
    tile.sources = scratch.sources;
    tile.depth = shape.filters;
    tile.zeros = scratch.zeros;
    for (int phase = 0; phase < phases; ++phase) {
      tile.phase_offset[phase] = (static_cast<long>(phase / 2) * shape.extent[2] + phase % 2) * pitch;
    }
    for (long stretch = share.begin; stretch < share.end; ++stretch) {
      const long first = stretch * table_pixels;
      const int valid = static_cast<int>(std::min<long>(table_pixels, pixels - first));
      for_each_line(lattice, first, valid, [&](const Pixel& pixel, int at, int length) {
        const long start = pixel.position(lattice) * pitch;
        const int rows = pixel.h + 1 < shape.extent[1] ? 0b1111 : 0b0011;
        for (int i = 0; i < length; ++i) {
          const int w = pixel.w + (lattice.images_innermost ? 0 : 2 * i);
          out[at + i] = start + i * lattice.line_step() * pitch;
          stored[at + i] = changed & rows & (w + 1 < shape.extent[2] ? 0b1111 : 0b0101);
        }
      });
      table.fill(lattice, first, valid, dy, shape.filters, false, scratch.zeros);
      for (int block = 0; block < blocks.count(); ++block) {
        const int column = blocks.begin(block);
        tile.weights = scratch.packed + product.packed_rows * column;
        tile.target = target.from(column);
        tile.columns = blocks.columns - column;
        const bool one_range = block == 0 && !lattice.images_innermost;
        Prefetch next(one_range ? dy : nullptr, shape.out_pixels() * shape.filters, stretches, stretch + 1, 1,
                      (valid + strided_pixels - 1) / strided_pixels);
        for (int p = 0; p < valid; p += strided_pixels) {
          tile.rows = table.line(0) + p;
          tile.out = out + p;
          tile.stored = stored + p;
          tile.valid = std::min(strided_pixels, valid - p);
          blocks.width(block).half ? compute_tile<has_half_packs ? 0 : 1, has_half_packs>(tile)
                                   : compute_tile<1, false>(tile);
          next.read();
        }
      }
    }
  });
}

}  // namespace

bool has_strided_data(const ConvShape& shape) {
  return shape.groups == 1 && shape.stride[1] == 2 && shape.stride[2] == 2 && shape.channels <= most_strided_channels;
}

template <class T>
std::size_t strided_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  StridedScratch<T>(scratch, shape);
  return scratch.used();
}

template <class T>
void strided_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const T* weights,
                           const T* relu_output, T* dx, bool accumulate, std::byte* workspace) {
  const ColumnBlocks<T> blocks(shape.channels, strided_packs);
  Scratch pieces(workspace);
  const StridedScratch<T> scratch(pieces, shape);
  std::fill_n(scratch.zeros, shape.filters, T(0));
  for (int depth_phase = 0; depth_phase < shape.stride[0]; ++depth_phase) {
    const TapMap map = TapMap::sources(shape, depth_phase, scratch.taps);
    const long rows = find_sources(shape, map, depth_phase, scratch);
    pack_sources(exec, shape, weights, blocks, map.taps(), rows, scratch);
    strided_product<T>(exec,
                       {.shape = shape,
                        .map = map,
                        .blocks = blocks,
                        .depth_phase = depth_phase,
                        .dy = dy,
                        .packed_rows = rows,
                        .target = {dx, relu_output, accumulate, false}},
                       scratch);
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                                 \
  template std::size_t strided_workspace<T>(const ConvShape&);                                                  \
  template void strided_backward_data<T>(const Exec&, const ConvShape&, const T*, const T*, const T*, T*, bool, \
                                         std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
