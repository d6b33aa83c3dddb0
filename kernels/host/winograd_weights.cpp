#include "kernels/host/panel.hpp"
#include "kernels/host/prefetch.hpp"
#include "kernels/host/winograd.hpp"
#include "kernels/host/winograd_tiles.hpp"

namespace halograd::host {
namespace {

/// Transformed tiles of x and dy that are kept at a time: in the second-level cache of the only task, or so many that
/// several tasks, which exchange them, seldom wait for each other.
constexpr long kept_bytes_alone = 512L << 10;
constexpr long kept_bytes_a_task = 1L << 20;
/// Tiles that a register tile sums at a time: its operands stay in the first-level cache.
constexpr int summed_tiles = 32;
/// Rows (input channels) of a unit of the sums.
constexpr int unit_rows = 64;
/// Larger sums are kept only where they are less than the transformed tiles: of many channels and few tiles, it is the
/// tiles that are kept, all of them, and each unit's sums turned into weight gradients as soon as they are complete.
constexpr long always_kept_sum_bytes = 4L << 20;

/// How the weight gradient is cut: tiles are transformed `tiles` at a time, all tasks together; then the sums over
/// them, (unit, plane, row, column), are shared out. A sum follows the order of the tiles whatever the cut, so that the
/// result does not depend on it.
template <class T>
struct GradientCut {
  int channels, filters;
  long input_columns, gradient_columns;
  PanelBlocks<T> blocks;
  bool keeps_sums;
  long tiles;

  GradientCut(const ConvShape& shape, const TilePass& pass)
      : channels(shape.channels),
        filters(shape.filters),
        input_columns(whole_packs<T>(shape.channels)),
        gradient_columns(PanelBlocks<T>{shape.filters}.count() * PanelBlocks<T>::width),
        blocks{shape.filters} {
    const long plane = pass.planes() * static_cast<long>(sizeof(T));
    const long tile_bytes = plane * (input_columns + gradient_columns);
    const long sum_bytes = plane * input_columns * gradient_columns;
    keeps_sums = sum_bytes <= always_kept_sum_bytes || sum_bytes < pass.tiles() * tile_bytes;
    const long kept_bytes = concurrency() == 1 ? kept_bytes_alone : concurrency() * kept_bytes_a_task;
    const long block = std::max<long>(1, kept_bytes / tile_bytes / summed_tiles) * summed_tiles;
    tiles = keeps_sums ? std::min(block, pass.tiles()) : pass.tiles();
  }
  [[nodiscard]] int row_units() const { return (channels + unit_rows - 1) / unit_rows; }
  [[nodiscard]] int units() const { return row_units() * blocks.count(); }
  [[nodiscard]] int rows(int unit) const { return std::min(unit_rows, channels - unit % row_units() * unit_rows); }
  [[nodiscard]] int first_row(int unit) const { return unit % row_units() * unit_rows; }
  [[nodiscard]] int block(int unit) const { return unit / row_units(); }
  [[nodiscard]] long input_pitch() const { return plane_pitch<T>(tiles + 1, input_columns); }
  [[nodiscard]] long gradient_pitch() const { return plane_pitch<T>(tiles + 1, gradient_columns); }
  [[nodiscard]] long sum_pitch() const {
    return plane_pitch<T>(std::min(unit_rows, channels) + panel_rows(1), blocks.width);
  }
};

template <class T>
struct GradientPieces {
  T* zeros;
  T* inputs;
  T* gradients;
  T* sums;
  GradientPieces(Scratch& scratch, const TilePass& pass, const GradientCut<T>& cut)
      : zeros(scratch.take<T>(winograd_points(pass.kernel) * std::max(cut.input_columns, cut.gradient_columns))),
        inputs(scratch.take<T>(pass.planes() * cut.input_pitch())),
        gradients(scratch.take<T>(pass.planes() * cut.gradient_pitch())),
        sums(scratch.take<T>((cut.keeps_sums ? cut.units() : concurrency()) * pass.planes() * cut.sum_pitch())) {}
};

template <int r, class T>
struct WinogradGradient {
  static constexpr int planes = winograd_planes(r);
  const ConvShape& shape;
  const TilePass pass;
  const GradientCut<T> cut;
  const GradientPieces<T> pieces;
  const T* x;
  const T* dy;
  T* dweights;
  T* dbias;

  /// Planes of the low (high) half of B^T x B and A dy A^T of tiles [first, first + count), to row `at` of the planes.
  template <bool high>
  void transform_half(long first, int count, long at) const {
    transform_patches<winograd_points(r)>(
        PatchSource<T>{x, pass.height, pass.width, pass.depth, -pass.pad_height, -pass.pad_width, pieces.zeros}, pass,
        first, count, pieces.inputs + at * cut.input_columns, cut.input_columns,
        [&](const auto& pixels, T* to) { transform_planes<InputMap, r, high>(pixels, to, cut.input_pitch()); });
    transform_patches<winograd_outputs>(
        PatchSource<T>{dy, pass.out_height, pass.out_width, pass.columns, 0, 0, pieces.zeros}, pass, first, count,
        pieces.gradients + at * cut.gradient_columns, cut.gradient_columns,
        [&](const auto& pixels, T* to) { transform_planes<GradientMap, r, high>(pixels, to, cut.gradient_pitch()); });
  }

  /// A task's share of the transforms of `count` tiles. A half of the planes after the other, as in the sums: of two
  /// tasks each transforms the planes that it sums, and reads nothing that is in the cache of the other.
  void transform_share(long first, long count, int task, int tasks) const {
    const Share share(2 * count, task, tasks);
    const long low_end = std::min(share.end, count), high_begin = std::max(share.begin, count);
    if (share.begin < low_end) {
      transform_half<false>(first + share.begin, static_cast<int>(low_end - share.begin), share.begin);
    }
    if (high_begin < share.end) {
      transform_half<true>(first + high_begin - count, static_cast<int>(share.end - high_begin), high_begin - count);
    }
  }

  /// What the transforms read next, fetched while the sums are computed.
  struct Ahead {
    Prefetch x, dy;
  };
  [[nodiscard]] Ahead ahead(long first, long count, long sums) const {
    const long row_tiles = std::min<long>(unit_rows, shape.channels) / panel_rows(2) + 1;
    const long tiles = sums * row_tiles * ((count + summed_tiles - 1) / summed_tiles);
    return {Prefetch(x, pass.in_values(), pass.tiles(), first, count, tiles),
            Prefetch(dy, pass.out_values(), pass.tiles(), first, count, tiles)};
  }

  /// Adds the products of `count` tiles to the sums of a unit in one plane.
  void sum_tiles(int unit, int plane, long count, bool accumulate, T* sums, Ahead& next) const {
    const int packs = cut.blocks.packs(cut.block(unit));
    const T* left = pieces.inputs + plane * cut.input_pitch() + cut.first_row(unit);
    const T* right = pieces.gradients + plane * cut.gradient_pitch() + cut.blocks.begin(cut.block(unit));
    for (long t = 0; t < count; t += summed_tiles) {
      multiply_panel<true>(
          packs, cut.rows(unit),
          PanelTile<T>{static_cast<int>(std::min<long>(summed_tiles, count - t)), left + t * cut.input_columns,
                       cut.input_columns, right + t * cut.gradient_columns, cut.gradient_columns,
                       sums + plane * cut.sum_pitch(), packs * lanes<T>, accumulate || t > 0},
          [&next] {
            next.x.read();
            next.dy.read();
          });
    }
  }

  /// The weight gradients of rows [begin, end) of a unit, from its sums.
  void finish(int unit, int begin, int end, const T* sums) const {
    const int packs = cut.blocks.packs(cut.block(unit));
    const long tap_pitch = static_cast<long>(shape.channels) * shape.filters;
    for (int row = begin; row < end; ++row) {
      for (int v = 0; v < packs; ++v) {
        const int column = cut.blocks.begin(cut.block(unit)) + v * lanes<T>;
        const T* from = sums + (static_cast<long>(row) * packs + v) * lanes<T>;
        T* to = dweights + static_cast<long>(cut.first_row(unit) + row) * shape.filters + column;
        transform_kernel_gradient<r, T>(
            [&](int plane) { return load<T>(from + plane * cut.sum_pitch()); },
            [&](int tap, const Pack<T>& value) { store_part(value, to + tap * tap_pitch, shape.filters - column); });
      }
    }
  }

  /// The bias gradient of filters [begin, end): one plane of A dy A^T holds the sums of the tiles.
  void sum_bias(int begin, int end, long count, bool accumulate) const {
    if (!accumulate) std::fill(dbias + begin, dbias + end, T(0));
    const T* tile = pieces.gradients + winograd_sum_plane(r) * cut.gradient_pitch();
    for (long t = 0; t < count; ++t, tile += cut.gradient_columns) {
      for (int k = begin; k < end; ++k) dbias[k] += tile[k];
    }
  }

  [[nodiscard]] T* sums_of(int index) const { return pieces.sums + index * planes * cut.sum_pitch(); }

  void run(const Exec& exec) const {
    const int tasks = concurrency();
    for (long first = 0; first < pass.tiles(); first += cut.tiles) {
      const long count = std::min(cut.tiles, pass.tiles() - first);
      parallel_tasks(exec, "halograd::winograd_tiles", tasks,
                     [&](int task) { transform_share(first, count, task, tasks); });
      parallel_tasks(exec, "halograd::winograd_backward_weights", tasks, [&](int task) {
        if (dbias != nullptr) {
          const Share share(shape.filters, task, tasks);
          sum_bias(static_cast<int>(share.begin), static_cast<int>(share.end), count, first > 0);
        }
        if (cut.keeps_sums) {
          const Share share(static_cast<long>(cut.units()) * planes, task, tasks);
          Ahead next = ahead(first + count, count, share.end - share.begin);
          for (long i = share.begin; i < share.end; ++i) {
            const int unit = static_cast<int>(i % cut.units());
            sum_tiles(unit, static_cast<int>(i / cut.units()), count, first > 0, sums_of(unit), next);
          }
          return;
        }
        const Share share(cut.units(), task, tasks);
        Ahead none;
        for (int unit = static_cast<int>(share.begin); unit < share.end; ++unit) {
          for (int plane = 0; plane < planes; ++plane) sum_tiles(unit, plane, count, false, sums_of(task), none);
          finish(unit, 0, cut.rows(unit), sums_of(task));
        }
      });
    }
    if (!cut.keeps_sums) return;
    parallel_tasks(exec, "halograd::winograd_weights", tasks, [&](int task) {
      const Share share(static_cast<long>(cut.blocks.count()) * cut.channels, task, tasks);
      for (long i = share.begin; i < share.end; ++i) {
        const int row = static_cast<int>(i % cut.channels);
        const int unit = static_cast<int>(i / cut.channels) * cut.row_units() + row / unit_rows;
        finish(unit, row % unit_rows, row % unit_rows + 1, sums_of(unit));
      }
    });
  }
};

}  // namespace

template <class T>
std::size_t winograd_weights_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  const TilePass pass = TilePass::forward(shape);
  GradientPieces<T>(scratch, pass, GradientCut<T>(shape, pass));
  return scratch.used();
}

template <class T>
void winograd_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, T* dweights, T* dbias,
                               std::byte* workspace) {
  const TilePass pass = TilePass::forward(shape);
  const GradientCut<T> cut(shape, pass);
  Scratch scratch(workspace);
  const GradientPieces<T> pieces(scratch, pass, cut);
  std::fill(pieces.zeros,
            pieces.zeros + winograd_points(pass.kernel) * std::max(cut.input_columns, cut.gradient_columns), T(0));
  if (pass.kernel == 3) {
    WinogradGradient<3, T>{shape, pass, cut, pieces, x, dy, dweights, dbias}.run(exec);
  } else {
    WinogradGradient<5, T>{shape, pass, cut, pieces, x, dy, dweights, dbias}.run(exec);
  }
}

#define HALOGRAD_INSTANTIATE(T)                                         \
  template std::size_t winograd_weights_workspace<T>(const ConvShape&); \
  template void winograd_backward_weights<T>(const Exec&, const ConvShape&, const T*, const T*, T*, T*, std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
