#include <array>

#include "kernels/host/prefetch.hpp"
#include "kernels/host/winograd.hpp"
#include "kernels/host/winograd_cut.hpp"

namespace halograd::host {
namespace {

/// fitting_panel_rows of a unit's rows, which are asked for more often than its divisions would allow.
constexpr auto fitting_rows = [] {
  std::array<std::array<int, unit_rows + 1>, 3> rows_for{};
  for (int packs : {1, 2}) {
    for (int rows = 1; rows <= unit_rows; ++rows) rows_for[packs][rows] = fitting_panel_rows(packs, rows);
  }
  return rows_for;
}();

template <int r, class T>
struct WinogradGradient {
  static constexpr int planes = winograd_planes(r);
  const ConvShape& shape;
  const TilePass pass;
  const GradientCut<T> cut;
  const GradientPieces<T> pieces;
  const T* x;
  const T* dy;
  Wide<T>* dweights;
  Wide<T>* dbias;

  /// What a team takes at once: tiles of a part.
  struct Stretch {
    long part;
    TileBlock tiles;
    bool opens;  ///< the part
  };
  [[nodiscard]] long rounds() const { return (cut.parts + cut.teams - 1) / cut.teams * cut.stretches; }
  /// Without tiles where a team has fewer parts than others, or a part fewer stretches.
  [[nodiscard]] Stretch stretch(int team, long round) const {
    const Share parts(cut.parts, team, cut.teams);
    const long part = parts.begin + round / cut.stretches, index = round % cut.stretches;
    if (part >= parts.end) return {part, {}, false};
    if (pass.in_volumes) {
      const long all = cut.volume_blocks(pass), number = all * part / cut.parts + index;
      if (number >= all * (part + 1) / cut.parts) return {part, {}, false};
      const long range = number % cut.ranges(pass), run = number / cut.ranges(pass) % cut.runs(pass);
      const Share slices(pass.out_slices, static_cast<int>(run), static_cast<int>(cut.runs(pass)));
      return {part,
              {number / cut.ranges(pass) / cut.runs(pass), static_cast<int>(slices.begin),
               static_cast<int>(slices.end - slices.begin), range * cut.tiles,
               static_cast<int>(std::min(cut.tiles, pass.slice_tiles() - range * cut.tiles))},
              index == 0};
    }
    const long begin = pass.tiles() * part / cut.parts + index * cut.tiles, end = pass.tiles() * (part + 1) / cut.parts;
    return {part, {0, 0, 1, begin, static_cast<int>(std::clamp(end - begin, 0L, cut.tiles))}, index == 0};
  }
  [[nodiscard]] Wide<T>* inputs_of(int team) const { return pieces.inputs + team * planes * cut.input_pitch(); }
  [[nodiscard]] Wide<T>* gradients_of(int team) const {
    return pieces.gradients + team * (planes + 1) * cut.gradient_pitch();
  }

  /// Which half of the planes, or both.
  struct Halves {
    bool low, high;
  };

  /// Where transformed tiles go: a row's columns, rows and planes so far apart.
  struct Place {
    Wide<T>* at;
    long row, plane;
  };

  /// Planes of B^T x B of some channels of the rows [begin, end) that a block reads.
  void transform_inputs(const TileBlock& tiles, int channel, int channels, long begin, long end, Halves halves,
                        const Place& to) const {
    const PatchSource<T> source{x + channel, pass.height,      pass.width,      channels,
                                pass.depth,  -pass.pad_height, -pass.pad_width, pieces.zeros};
    const auto transform = [&](const auto& pixels, Wide<T>* at) {
      if (halves.low) transform_planes<InputMap, r, false>(pixels, at, to.plane);
      if (halves.high) transform_planes<InputMap, r, true>(pixels, at, to.plane);
    };
    tiles.for_read(
        pass, begin, end,
        [&](long first, int count, long row) {
          transform_patches<winograd_points(r)>(source, pass, first, count, to.at + (row - begin) * to.row, to.row,
                                                transform);
        },
        [&](int count, long row) {
          for (int plane = halves.low ? 0 : planes / 2; plane < (halves.high ? planes : planes / 2); ++plane) {
            std::fill_n(to.at + plane * to.plane + (row - begin) * to.row, count * to.row, Wide<T>(0));
          }
        });
  }
  /// The same of A dy A^T; behind its planes the sum of each tile, where the bias gradient needs it.
  void transform_gradients(const TileBlock& tiles, int filter, int filters, long begin, long end, Halves halves,
                           const Place& to) const {
    const PatchSource<T> source{dy + filter, pass.out_height, pass.out_width, filters, pass.columns, 0,
                                0,           pieces.zeros};
    const auto transform = [&](const auto& pixels, Wide<T>* at) {
      if (halves.low) transform_planes<GradientMap, r, false>(pixels, at, to.plane);
      if (halves.high) transform_planes<GradientMap, r, true>(pixels, at, to.plane);
      if (halves.low && dbias != nullptr) store<Wide<T>>(sum_of(pixels), at + planes * to.plane);
    };
    tiles.for_written(pass, begin, end, [&](long first, int count, long row) {
      transform_patches<winograd_outputs>(source, pass, first, count, to.at + (row - begin) * to.row, to.row,
                                          transform);
    });
  }
  template <class Pixels>
  static Pack<T> sum_of(const Pixels& pixels) {
    Pack<T> sum{};
#pragma GCC unroll 4
    for (int i = 0; i < winograd_outputs; ++i) sum += (pixels(i, 0) + pixels(i, 1)) + (pixels(i, 2) + pixels(i, 3));
    return sum;
  }

  /// A task's share of the transforms of a stretch. In a team a half of the planes after the other, as in the sums: of
  /// two tasks each transforms the planes that it sums, and reads nothing that is in the cache of the other.
  void transform_share(int task, long round) const {
    const int team = task / cut.team_size(), member = task % cut.team_size();
    const Stretch now = stretch(team, round);
    if (cut.integers) return round_share(task, now);
    const auto transform = [&](long x_begin, long x_end, long dy_begin, long dy_end, Halves halves) {
      transform_inputs(now.tiles, 0, pass.depth, x_begin, x_end, halves,
                       {inputs_of(team) + x_begin * cut.input_columns, cut.input_columns, cut.input_pitch()});
      transform_gradients(
          now.tiles, 0, pass.columns, dy_begin, dy_end, halves,
          {gradients_of(team) + dy_begin * cut.gradient_columns, cut.gradient_columns, cut.gradient_pitch()});
    };
    const long read = now.tiles.rows_read(pass), written = now.tiles.rows();
    if (cut.team_size() == 1) return transform(0, read, 0, written, {true, true});
    const Share x_rows(2 * read, member, cut.team_size()), dy_rows(2 * written, member, cut.team_size());
    transform(x_rows.begin, std::min(x_rows.end, read), dy_rows.begin, std::min(dy_rows.end, written), {true, false});
    transform(std::max(x_rows.begin - read, 0L), x_rows.end - read, std::max(dy_rows.begin - written, 0L),
              dy_rows.end - written, {false, true});
  }

  [[nodiscard]] float* input_scales(int team, int plane) const {
    return pieces.input_scales + (static_cast<long>(team) * planes + plane) * cut.roundings(pass) * cut.input_columns;
  }
  [[nodiscard]] float* gradient_scales(int team, int plane) const {
    return pieces.gradient_scales +
           (static_cast<long>(team) * planes + plane) * cut.roundings(pass) * cut.gradient_columns;
  }

  /// A task's share of a stretch, transformed and rounded to integers, a block of columns after the other.
  void round_share(int task, const Stretch& now) const {
    const PanelBlocks<T> channels{shape.channels};
    const Share share(channels.count() + cut.blocks.count(), task % cut.team_size(), cut.team_size());
    for (int i = static_cast<int>(share.begin); i < share.end; ++i) {
      const bool inputs = i < channels.count();
      const PanelBlocks<T>& blocks = inputs ? channels : cut.blocks;
      const int block = inputs ? i : i - channels.count();
      round_block(task, now, inputs, blocks.begin(block), blocks.packs(block) * lanes<T>);
    }
  }
  /// Columns of x or dy; of dy with what the bias gradient takes of them, which is not rounded.
  void round_block(int task, const Stretch& now, bool inputs, int column, int width) const {
    if constexpr (may_be_integers<T>) {
      const int team = task / cut.team_size(), columns = std::min(width, (inputs ? pass.depth : pass.columns) - column);
      const long rows = inputs ? now.tiles.rows_read(pass) : now.tiles.rows(), step = cut.rounded_rows(pass);
      const long to_columns = inputs ? cut.input_columns : cut.gradient_columns;
      const float limit = integer_limit(static_cast<int>(step));
      const Place values{pieces.rounded + task * (planes + 1) * cut.rounded_pitch(pass), width,
                         cut.rounded_pitch(pass)};
      for (long begin = 0; begin < rows; begin += step) {
        const long end = std::min(begin + step, rows);
        if (inputs) {
          transform_inputs(now.tiles, column, columns, begin, end, {true, true}, values);
        } else {
          transform_gradients(now.tiles, column, columns, begin, end, {true, true}, values);
          if (dbias != nullptr) {
            sum_bias(now, begin == 0, values.at + planes * values.plane, width, end - begin, column, column + columns);
          }
        }
        for (int plane = 0; plane < planes; ++plane) {
          Wide<T>* const to = (inputs ? inputs_of(team) + plane * cut.input_pitch()
                                      : gradients_of(team) + plane * cut.gradient_pitch()) +
                              begin / 2 * to_columns + column;
          float* const scales =
              (inputs ? input_scales(team, plane) : gradient_scales(team, plane)) + begin / step * to_columns + column;
          for (int c = 0; c < width; c += lanes<T>) {
            round_to_columns(values.at + plane * values.plane + c, width, static_cast<int>(end - begin), limit, to + c,
                             to_columns, scales + c);
          }
        }
      }
    }
  }

  /// What the transforms read next, fetched while the sums are computed.
  struct Ahead {
    Prefetch x, dy;
  };
  [[nodiscard]] Ahead ahead(const TileBlock& tiles, long sums) const {
    if (pass.in_volumes) return {};  // no stretch of memory
    const long row_tiles = std::min<long>(unit_rows, shape.channels) / panel_rows(2) + 1;
    const long products = sums * row_tiles * ((tiles.count + cut.summed_tiles() - 1) / cut.summed_tiles());
    return {Prefetch(x, pass.in_values(), pass.tiles(), tiles.first, tiles.count, products),
            Prefetch(dy, pass.out_values(), pass.tiles(), tiles.first, tiles.count, products)};
  }

  /// As sum_tiles, of integers.
  void sum_integers(int team, int unit, int plane, const TileBlock& tiles, bool accumulate, Wide<T>* sums,
                    Ahead& next) const {
    if constexpr (may_be_integers<T>) {
      const int packs = cut.blocks.packs(cut.block(unit)), row = cut.first_row(unit);
      const int column = cut.blocks.begin(cut.block(unit));
      const long count = tiles.rows(), step = cut.rounded_rows(pass);
      const Wide<T>* const left = inputs_of(team) + plane * cut.input_pitch() + row +
                                  static_cast<long>(cut.tap(unit)) * tiles.count / 2 * cut.input_columns;
      const Wide<T>* const right = gradients_of(team) + plane * cut.gradient_pitch() + column;
      for (long begin = 0; begin < count; begin += step) {
        multiply_integer_panel(
            packs, cut.rows(unit),
            {.pairs = static_cast<int>(std::min(step, count - begin) + 1) / 2,
             .left = reinterpret_cast<const std::int16_t*>(left + begin / 2 * cut.input_columns),
             .left_step = 2,
             .left_pair = 2 * cut.input_columns,
             .right = reinterpret_cast<const std::int16_t*>(right + begin / 2 * cut.gradient_columns),
             .right_pair = 2 * cut.gradient_columns,
             .row_scales = input_scales(team, plane) + begin / step * cut.input_columns + row,
             .column_scales = gradient_scales(team, plane) + begin / step * cut.gradient_columns + column,
             .out = sums + plane * cut.sum_pitch(),
             .out_pitch = packs * lanes<T>,
             .accumulate = accumulate || begin > 0},
            next.x, [&next] { next.dy.read(); });
      }
    }
  }

  /// Adds the products of a team's tiles to the sums of a unit in one plane.
  void sum_tiles(int team, int unit, int plane, const TileBlock& tiles, bool accumulate, Wide<T>* sums,
                 Ahead& next) const {
    if (cut.integers) return sum_integers(team, unit, plane, tiles, accumulate, sums, next);
    const int packs = cut.blocks.packs(cut.block(unit)), rows = cut.rows(unit), step = fitting_rows[packs][rows];
    const long count = tiles.rows();
    const Wide<T>* left = inputs_of(team) + plane * cut.input_pitch() + cut.first_row(unit) +
                          static_cast<long>(cut.tap(unit)) * tiles.count * cut.input_columns;
    const Wide<T>* right = gradients_of(team) + plane * cut.gradient_pitch() + cut.blocks.begin(cut.block(unit));
    const long summed = cut.summed_tiles();
    for (long t = 0; t < count; t += summed) {
      multiply_panel<true>(
          packs, rows, step,
          PanelTile<Wide<T>>{static_cast<int>(std::min(summed, count - t)), left + t * cut.input_columns,
                             cut.input_columns, right + t * cut.gradient_columns, cut.gradient_columns,
                             sums + plane * cut.sum_pitch(), packs * lanes<T>, accumulate || t > 0},
          next.x, [&next] { next.dy.read(); });
    }
  }

  /// The weight gradients of rows [begin, end) of a unit, from its sums in all parts.
  void finish(int unit, int begin, int end, const Wide<T>* sums) const {
    const int packs = cut.blocks.packs(cut.block(unit));
    const long tap_pitch = static_cast<long>(shape.channels) * shape.filters;
    const long part_pitch = cut.units() * planes * cut.sum_pitch();
    Wide<T>* const dkernel = dweights + cut.tap(unit) * r * r * tap_pitch;
    for (int row = begin; row < end; ++row) {
      for (int v = 0; v < packs; ++v) {
        const int column = cut.blocks.begin(cut.block(unit)) + v * lanes<T>;
        const Wide<T>* from = sums + (static_cast<long>(row) * packs + v) * lanes<T>;
        Wide<T>* to = dkernel + static_cast<long>(cut.first_row(unit) + row) * shape.filters + column;
        transform_kernel_gradient<r, T>(
            [&](int plane) {
              Pack<T> sum = load(from + plane * cut.sum_pitch());
              for (int part = 1; part < cut.parts; ++part) {
                sum += load(from + part * part_pitch + plane * cut.sum_pitch());
              }
              return sum;
            },
            [&](int tap, const Pack<T>& value) { store_part(value, to + tap * tap_pitch, shape.filters - column); });
      }
    }
  }

  /// Adds rows of a stretch, its first ones or not, to its part's bias gradient of filters [begin, end).
  void sum_bias(const Stretch& stretch, bool first, const Wide<T>* tile, long pitch, long rows, long begin,
                long end) const {
    Wide<T>* const sums = pieces.bias_sums + stretch.part * shape.filters;
    if (first && stretch.opens) std::fill(sums + begin, sums + end, Wide<T>(0));
    for (; rows > 0; --rows, tile += pitch) {
      for (long k = begin; k < end; ++k) sums[k] += tile[k - begin];
    }
  }
  /// A task's share of a stretch's, of tiles that are floats.
  void sum_bias_share(int team, const Stretch& stretch, const Share& filters) const {
    if (dbias == nullptr || cut.integers) return;
    sum_bias(stretch, true, gradients_of(team) + planes * cut.gradient_pitch() + filters.begin, cut.gradient_columns,
             stretch.tiles.rows(), filters.begin, filters.end);
  }

  [[nodiscard]] Wide<T>* sums_of(long index) const {
    return pieces.sums + index * planes * cut.sum_pitch();
  }

  /// A task's share of the sums over its team's stretch.
  void sum_share(int task, long round) const {
    const int team = task / cut.team_size(), member = task % cut.team_size();
    const Stretch now = stretch(team, round), then = stretch(team, round + 1);
    if (now.tiles.count == 0) return;
    sum_bias_share(team, now, Share(shape.filters, member, cut.team_size()));
    const Share share(static_cast<long>(cut.units()) * planes, member, cut.team_size());
    Ahead next = ahead(then.tiles, share.end - share.begin);
    for (long i = share.begin; i < share.end; ++i) {
      const int unit = static_cast<int>(i % cut.units());
      sum_tiles(team, unit, static_cast<int>(i / cut.units()), now.tiles, !now.opens,
                sums_of(now.part * cut.units() + unit), next);
    }
  }

  void run_by_tiles(const Exec& exec) const {
    const int tasks = concurrency();
    if (cut.team_size() == 1) {
      parallel_tasks(exec, "halograd::winograd_backward_weights", tasks, [&](int task) {
        for (long round = 0; round < rounds(); ++round) {
          transform_share(task, round);
          sum_share(task, round);
        }
      });
    } else {
      for (long round = 0; round < rounds(); ++round) {
        parallel_tasks(exec, "halograd::winograd_tiles", tasks, [&](int task) { transform_share(task, round); });
        parallel_tasks(exec, "halograd::winograd_backward_weights", tasks, [&](int task) { sum_share(task, round); });
      }
    }
    parallel_tasks(exec, "halograd::winograd_weights", tasks, [&](int task) {
      const Share share(static_cast<long>(cut.taps) * cut.blocks.count() * cut.channels, task, tasks);
      for (long i = share.begin; i < share.end; ++i) {
        const int row = static_cast<int>(i % cut.channels);
        const int unit = static_cast<int>(i / cut.channels) * cut.row_units() + row / unit_rows;
        finish(unit, row % unit_rows, row % unit_rows + 1, sums_of(unit));
      }
    });
  }

  void run_by_units(const Exec& exec) const {
    const int tasks = concurrency();
    parallel_tasks(exec, "halograd::winograd_tiles", tasks, [&](int task) { transform_share(task, 0); });
    parallel_tasks(exec, "halograd::winograd_backward_weights", tasks, [&](int task) {
      sum_bias_share(0, stretch(0, 0), Share(shape.filters, task, tasks));
      const Share share(cut.units(), task, tasks);
      Ahead none;
      for (int unit = static_cast<int>(share.begin); unit < share.end; ++unit) {
        for (int plane = 0; plane < planes; ++plane) {
          sum_tiles(0, unit, plane, stretch(0, 0).tiles, false, sums_of(task), none);
        }
        finish(unit, 0, cut.rows(unit), sums_of(task));
      }
    });
  }

  void run(const Exec& exec) const {
    cut.keeps_sums ? run_by_tiles(exec) : run_by_units(exec);
    if (dbias != nullptr) add_parts(exec, pieces.bias_sums, cut.parts, shape.filters, shape.filters, dbias);
  }
};

}  // namespace

template <class T>
std::size_t winograd_weights_workspace(const ConvShape& shape) {
  const TilePass pass = TilePass::forward(shape);
  std::size_t bytes = 0;
  for (const int parts : part_counts) {  // a smaller batch has fewer, and may need more
    Scratch scratch(nullptr);
    GradientPieces<T>(scratch, pass, GradientCut<T>(shape, pass, parts));
    bytes = std::max(bytes, scratch.used());
  }
  return bytes;
}

template <class T>
void winograd_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                               Wide<T>* dbias, std::byte* workspace) {
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

#define HALOGRAD_INSTANTIATE(T)                                                                                     \
  template std::size_t winograd_weights_workspace<T>(const ConvShape&);                                             \
  template void winograd_backward_weights<T>(const Exec&, const ConvShape&, const T*, const T*, Wide<T>*, Wide<T>*, \
                                             std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
