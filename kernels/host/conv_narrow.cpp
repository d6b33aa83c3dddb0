#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/narrow.hpp"

/// Few channels and no padding, as in a network's first layer: a row of the kernel is one stretch of memory, and the
/// pixels of a row of y read at a constant distance, so that no table of row pointers is needed.
namespace halograd::host {
namespace {

constexpr int most_channels = 4;
/// What a tile holds: pixels of a row, and registers of columns.
constexpr int wide_tile = 12, narrow_tile = 8;
static_assert(rows_that_fit(narrow_packs, wide_tile) == wide_tile);

template <class T>
struct NarrowTile {
  int slots;               ///< stretches that a pixel reads
  const long* slot_begin;  ///< (slots): where they begin
  int depth;               ///< values of each
  long distance;           ///< values from a pixel's to the next one's
  const Wide<T>* in;       ///< of the first pixel
  const Wide<T>* weights;  ///< (slots * depth, pitch), readable for all columns of the tile
  long pitch;
  const Wide<T>* bias;
  Target<T> target;
  long at;      ///< in the target, of the first pixel
  int filters;  ///< of all blocks
  int columns;  ///< valid ones
};

/// `distance`: of the pixels, where it is known; 0: the tile says. Where it is inlined, g++ keeps one of the sums in
/// memory.
template <int pixels, int distance, int V, bool half, class T>
[[gnu::noinline]] void compute_tile(const NarrowTile<T>& tile) {
  using Sums = TileSums<Wide<T>, pixels, V, half>;
  Sums sum;
  sum.start(tile.bias, 0);
  const long step = distance > 0 ? distance : tile.distance;
  const Wide<T>* b = tile.weights;
  for (int slot = 0; slot < tile.slots; ++slot) {
    const Wide<T>* a = tile.in + tile.slot_begin[slot];
    for (int d = 0; d < tile.depth; ++d, ++a, b += tile.pitch) {
      asm("" : "+r"(a));  // or g++ keeps, on the stack, what pixels will read that the one before has read
      sum.add(b, [=](int m) { return a[m * step]; });
    }
  }
  const Sums done = sum;  // what lambdas refer to is in memory: not the sums of the loop above
  if (tile.columns >= columns_of<T>({V, half})) {
    tile.target.store_whole([&](const auto& store_pack) {
      done.write(pixels, [&](auto pack, int m, int column) {
        store_pack(pack, tile.at + static_cast<long>(m) * tile.filters + column);
      });
    });
    return;
  }
  done.write(pixels, [&tile](auto pack, int m, int column) {
    tile.target.store(pack, tile.at + static_cast<long>(m) * tile.filters + column, tile.columns - column);
  });
}

template <int pixels, int distance, class T>
void run_width(TileWidth width, const NarrowTile<T>& tile) {
  if constexpr (has_half_packs) {
    if (width.half && width.packs == 0) return compute_tile<pixels, distance, 0, true>(tile);
    if (width.half) return compute_tile<pixels, distance, 1, true>(tile);
  }
  if constexpr (narrow_packs > 1) {
    if (width.packs == 2) return compute_tile<pixels, distance, 2, false>(tile);
  }
  compute_tile<pixels, distance, 1, false>(tile);
}
template <int pixels, class T>
void run_distance(TileWidth width, const NarrowTile<T>& tile) {
  if (tile.distance == 1) return run_width<pixels, 1>(width, tile);
  if (tile.distance == 3) return run_width<pixels, 3>(width, tile);
  run_width<pixels, 0>(width, tile);
}

/// The tile that computes the fewer pixels twice: the last one of a row begins where it still fits.
int tile_for(int width) {
  const auto computed = [width](int tile) { return (width + tile - 1) / tile * tile; };
  return width >= wide_tile && computed(wide_tile) <= computed(narrow_tile) ? wide_tile : narrow_tile;
}

template <class T>
struct NarrowScratch {
  Wide<T>* weights;  ///< (taps, channels, columns of all blocks)
  Wide<T>* bias;
  long* slot_begin;
  NarrowScratch(Scratch& scratch, const ConvShape& shape, const ColumnBlocks<T>& blocks)
      : weights(scratch.take<Wide<T>>(static_cast<long>(shape.taps()) * shape.channels * blocks.padded())),
        bias(scratch.take<Wide<T>>(blocks.padded())),
        slot_begin(scratch.take<long>(NarrowGeometry(shape).slots)) {}
};

template <class T>
void pad_columns(const T* from, long rows, int columns, int padded, T* to) {
  for (long row = 0; row < rows; ++row, from += columns, to += padded) {
    std::fill(std::copy(from, from + columns, to), to + padded, T(0));
  }
}

}  // namespace

bool is_narrow(const ConvShape& shape) {
  constexpr int least_row = 2 * lanes<float>;  // of y: the weight gradient reads so far beyond all rows but the last
  if (shape.out_extent()[2] * shape.filters < least_row) return false;
  return shape.channels <= most_channels && shape.groups == 1 && !shape.padded() &&
         (shape.dilation[2] == 1 || shape.kernel[2] == 1) && shape.out_extent()[2] >= narrow_tile;
}

template <class T>
std::size_t narrow_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  NarrowScratch<T>(scratch, shape, ColumnBlocks<T>(shape.filters, narrow_packs));
  return scratch.used();
}

template <class T>
void narrow_forward(const Exec& exec, const ConvShape& shape, const Wide<T>* x, const Wide<T>* weights,
                    const Wide<T>* bias, bool relu, T* y, std::byte* workspace) {
  const ColumnBlocks<T> blocks(shape.filters, narrow_packs);
  Scratch pieces(workspace);
  const NarrowScratch<T> scratch(pieces, shape, blocks);
  pad_columns(weights, static_cast<long>(shape.taps()) * shape.channels, shape.filters, blocks.padded(),
              scratch.weights);
  std::fill_n(scratch.bias, blocks.padded(), Wide<T>(0));
  if (bias != nullptr) std::copy(bias, bias + shape.filters, scratch.bias);
  const NarrowGeometry geometry(shape);
  for (int slot = 0; slot < geometry.slots; ++slot) scratch.slot_begin[slot] = geometry.slot_begin(slot);
  NarrowTile<T> first{};
  first.slots = geometry.slots;
  first.slot_begin = scratch.slot_begin;
  first.depth = shape.kernel[2] * shape.channels;
  first.distance = geometry.distance;
  first.pitch = blocks.padded();
  first.filters = shape.filters;
  const ConvShape::Spatial& out = geometry.out;
  const int pixels = tile_for(out[2]);
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_narrow", tasks, [&](int task) {
    NarrowTile<T> tile = first;
    const Share rows(geometry.rows(), task, tasks);
    for (long r = rows.begin; r < rows.end; ++r) {
      const Wide<T>* const from = x + geometry.row_begin(r);
      for (int block = 0; block < blocks.count(); ++block) {
        const int column = blocks.begin(block);
        tile.weights = scratch.weights + column;
        tile.bias = scratch.bias + column;
        tile.columns = shape.filters - column;
        tile.target = Target<T>{y + column, nullptr, false, relu};
        for (int w = 0; w < out[2]; w += pixels) {
          const int begin = std::min(w, out[2] - pixels);
          tile.in = from + begin * tile.distance;
          tile.at = (r * out[2] + begin) * shape.filters;
          if (pixels == wide_tile) {
            run_distance<wide_tile>(blocks.width(block), tile);
          } else {
            run_distance<narrow_tile>(blocks.width(block), tile);
          }
        }
      }
    }
  });
}

#define HALOGRAD_INSTANTIATE(T)                                                                                        \
  template std::size_t narrow_workspace<T>(const ConvShape&);                                                          \
  template void narrow_forward<T>(const Exec&, const ConvShape&, const Wide<T>*, const Wide<T>*, const Wide<T>*, bool, \
                                  T*, std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
