#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/host/integer_panel.hpp"
#include "kernels/host/panel.hpp"
#include "kernels/host/winograd_tiles.hpp"

/// How the passes of a Winograd convolution are cut into what is transformed and multiplied together, and the scratch
/// memory for it.
namespace halograd::host {

/// The slices, and tiles of each, of a block of `block_rows` rows in volumes: rather all slices of few tiles than few
/// slices of all tiles, since slices at a block's ends are transformed again for the next block.
struct VolumeBlock {
  int slices, tiles;
  VolumeBlock(const TilePass& pass, long block_rows) {
    constexpr long least_tiles = 8, least_slices = 4;
    const long most_tiles = (pass.slice_tiles() + least_tiles - 1) / least_tiles * least_tiles;
    const long fitting = block_rows / (pass.out_slices + pass.taps / 2) / least_tiles * least_tiles;
    tiles = static_cast<int>(std::clamp(fitting, least_tiles, most_tiles));
    slices = static_cast<int>(std::min<long>(pass.out_slices, std::max(least_slices, block_rows / tiles)));
  }
};

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

/// A task's transformed tiles and products stay in its second-level cache; those of volumes fill it, since every slice
/// of tiles serves all taps, and so do those under larger kernels, which come from beyond it once for each block.
constexpr long task_bytes = 256L << 10;
constexpr long large_task_bytes = 1L << 20;
constexpr long large_kernel_bytes = 1L << 20;
constexpr long volume_task_bytes = 1280L << 10;
/// Transformed kernels beyond this are not kept for all columns of images: they would come from beyond the second-level
/// cache for each block of tiles, or go to memory and back.
constexpr long kept_kernel_bytes = 6L << 20;
/// Values of the depth whose kernels are transformed at a time where they are not kept: those of a block of columns
/// then stay in the second-level cache.
constexpr int piece_depth = 128;
/// Beyond this, volumes and adjoints, which keep their kernels, do not pay.
constexpr long most_kernel_bytes = 12L << 20;
/// Transformed tiles that are kept at a time where kernels are not.
constexpr long kept_tile_bytes = 16L << 20;

/// Whether transformed values of a convolution in bf16 can be rounded to integers: their products then cost half, and
/// outputs keep bf16's accuracy (docs/kernels.md). bf16 itself would not keep it.
template <class T>
constexpr bool may_be_integers = has_integer_panels&& std::is_same_v<T, Bfloat16>;
/// Products for each value that is rounded, at least: of fewer, rounding takes longer than it saves.
constexpr int least_products = 16, least_gradient_products = 20;
/// Whether they are.
template <class T>
bool are_integers(const TilePass& pass, int least) {
  constexpr int fewest = 32;
  if constexpr (may_be_integers<T>) {
    return pass.kernel == 3 && std::min(pass.depth, pass.columns) >= fewest &&
           static_cast<long>(pass.taps) * pass.depth * pass.columns >= least * (pass.depth + pass.columns) &&
           multiplies_integers();
  }
  return false;
}

/// How a pass is cut. Either the kernels are transformed once for all columns, and a task takes tiles in blocks of
/// `tiles` (of each of `slices` slices); or the tiles are transformed once, `tiles` at a time, and a task takes blocks
/// of columns, transforming a piece of the kernels of a block as it comes to it. The second is for many channels and
/// few pixels, and not for volumes.
template <class T>
struct WinogradCut {
  bool integers;
  bool keeps_kernels;
  int tiles, slices = 1;
  int taps;
  long depth;  ///< of all taps
  int piece;   ///< of a tap's depth, for which kernels are transformed at a time: all of it where they are kept
  long input_columns;
  PanelBlocks<T> blocks;

  explicit WinogradCut(const TilePass& pass)
      : integers(are_integers<T>(pass, least_products)),
        taps(pass.taps),
        depth(static_cast<long>(pass.taps) * pass.depth),
        piece(pass.depth),
        blocks{pass.columns} {
    const long plane = pass.planes() * static_cast<long>(sizeof(Wide<T>));
    const long kernel_bytes = plane * depth * blocks.count() * blocks.width;
    keeps_kernels = pass.in_volumes || kernel_bytes <= kept_kernel_bytes;
    if (!keeps_kernels) piece = std::min(piece, piece_depth);
    input_columns = whole_packs<T>(piece);
    const long row_bytes = plane * (keeps_kernels ? input_columns / (integers ? 2 : 1) + blocks.width : blocks.width);
    const long block = (kernel_bytes > large_kernel_bytes ? large_task_bytes : task_bytes) / row_bytes;
    tiles = static_cast<int>(std::min(std::clamp<long>(block / 8 * 8, 16, 512), (pass.tiles() + 7) / 8 * 8));
    if (pass.in_volumes) {
      const VolumeBlock volume(pass, volume_task_bytes / row_bytes);
      tiles = volume.tiles;
      slices = volume.slices;
    }
    if (!keeps_kernels) {
      const long kept = kept_tile_bytes / (plane * whole_packs<T>(pass.depth));
      tiles = static_cast<int>(std::min(pass.tiles(), std::max(32L, kept)));
    }
  }
  [[nodiscard]] int pieces(const TilePass& pass) const { return (pass.depth + piece - 1) / piece; }
  [[nodiscard]] long kernel_pitch() const { return plane_pitch<T>(keeps_kernels ? depth : piece, blocks.width); }
  /// Matrices of transformed tiles and kernels, of a plane each.
  [[nodiscard]] long input_matrices(const TilePass& pass) const {
    return static_cast<long>(keeps_kernels ? concurrency() : pieces(pass)) * pass.planes();
  }
  [[nodiscard]] long kernel_matrices(const TilePass& pass) const {
    return static_cast<long>(keeps_kernels ? blocks.count() : concurrency()) * pass.planes();
  }
  [[nodiscard]] long input_rows() const { return (slices + taps - 1L) * tiles + panel_rows(1); }
  [[nodiscard]] long input_pitch() const { return plane_pitch<T>(input_rows(), input_columns); }
  [[nodiscard]] long tile_pitch() const { return plane_pitch<T>(1, input_columns); }
  [[nodiscard]] long product_pitch() const {
    return plane_pitch<T>(static_cast<long>(slices) * tiles + panel_rows(1), blocks.width);
  }
};

template <class T>
struct WinogradScratch {
  T* zeros;
  Wide<T>* bias;
  Wide<T>* kernels;
  Wide<T>* inputs;  ///< of integers: a tile of each task
  Wide<T>* products;
  std::int16_t* integers;  ///< the inputs
  float* row_scales;       ///< of each plane of them
  float* kernel_scales;
  WinogradScratch(Scratch& scratch, const TilePass& pass, const WinogradCut<T>& cut)
      : zeros(scratch.take<T>(static_cast<long>(winograd_points(pass.kernel)) * whole_packs<T>(pass.depth))),
        bias(scratch.take<Wide<T>>(static_cast<long>(cut.blocks.count()) * cut.blocks.width)),
        kernels(scratch.take<Wide<T>>(cut.kernel_matrices(pass) * cut.kernel_pitch())),
        inputs(scratch.take<Wide<T>>(cut.integers ? concurrency() * pass.planes() * cut.tile_pitch()
                                                  : cut.input_matrices(pass) * cut.input_pitch())),
        products(scratch.take<Wide<T>>(static_cast<long>(concurrency()) * pass.planes() * cut.product_pitch())),
        integers(scratch.take<std::int16_t>(cut.integers ? cut.input_matrices(pass) * cut.input_pitch() : 0)),
        row_scales(scratch.take<float>(cut.integers ? cut.input_matrices(pass) * cut.input_rows() : 0)),
        kernel_scales(scratch.take<float>(cut.integers ? cut.kernel_matrices(pass) * cut.taps * cut.blocks.width : 0)) {
  }
};

/// Transformed tiles of x and dy that a team keeps at a time: in the second-level cache of its only task, or so many
/// that several tasks, which exchange them, seldom wait for each other.
constexpr long kept_bytes_alone = 512L << 10;
constexpr long kept_bytes_per_task = 1L << 20;
/// The same in volumes: one number, since their tiles are summed block by block and the order must not depend on tasks.
constexpr long kept_volume_bytes = 1280L << 10;
/// Tiles that a register tile sums at a time, at least, and bytes of them: they stay in the first-level cache.
constexpr int least_summed_tiles = 32;
constexpr long summed_bytes = 12L << 10;
/// Tiles whose values in a plane of a channel are rounded to integers with one scale; in volumes a block's are.
constexpr int rounded_tiles = 32;
static_assert(least_summed_tiles % rounded_tiles == 0);  // so a stretch begins with its own
/// Rows (input channels) of a unit of the sums.
constexpr int unit_rows = 64;
/// Larger sums are kept only where they are not more than twice the transformed tiles: of many channels and few tiles,
/// it is the tiles that are kept, all of them, and each unit's sums turned into weight gradients as soon as they are
/// complete.
constexpr long always_kept_sum_bytes = 4L << 20;
/// Sums up to this, which stay in the second-level cache beside the tiles, are kept for several parts of the tiles.
constexpr long part_sum_bytes = 640L << 10;
constexpr long all_parts_sum_bytes = 6L << 20;
constexpr int least_part_tiles = 128;
constexpr int part_counts[] = {24, 12, 8, 4, 2, 1};

/// How the weight gradient is cut. The tiles are cut into `parts` with sums of their own, as the shape alone decides;
/// the tasks into teams, of which each takes several parts, one after the other. A team transforms `tiles` of them at a
/// time (of each of `slices` slices of a volume), then shares out the sums over them, (unit, plane, row, column); a
/// unit has rows of one tap. A sum follows the order of the tiles of its part, and those of the parts are added in
/// order, so that the result does not depend on the number of tasks.
template <class T>
struct GradientCut {
  int channels, filters, taps;
  long input_columns, gradient_columns;
  PanelBlocks<T> blocks;
  bool integers;
  bool keeps_sums;
  int parts;
  int teams;
  long tiles;  ///< that a team transforms at a time, of each of `slices` slices
  int slices = 1;
  long stretches;  ///< of the largest part: how many times

  /// With at most `parts` parts.
  GradientCut(const ConvShape& shape, const TilePass& pass, int most_parts = part_counts[0])
      : channels(shape.channels),
        filters(shape.filters),
        taps(pass.taps),
        input_columns(whole_packs<T>(shape.channels)),
        gradient_columns(whole_packs<T>(shape.filters)),
        blocks{shape.filters},
        // Pairs of tiles must not lie in two slices: what another tap reads starts at another slice.
        integers(are_integers<T>(pass, least_gradient_products) && (!pass.in_volumes || pass.slice_tiles() % 2 == 0)) {
    const long plane = pass.planes() * static_cast<long>(sizeof(Wide<T>));
    const long tile_bytes = plane * (input_columns + gradient_columns) / (integers ? 2 : 1);
    const long sum_bytes = plane * taps * input_columns * blocks.count() * blocks.width;
    keeps_sums = pass.in_volumes || sum_bytes <= always_kept_sum_bytes || sum_bytes <= 2 * pass.tiles() * tile_bytes;
    if (pass.in_volumes) {
      const VolumeBlock block(pass, kept_volume_bytes / tile_bytes);
      tiles = block.tiles;
      slices = block.slices;
    }
    parts = 1;
    if (keeps_sums && sum_bytes <= part_sum_bytes) {
      const long most_for_tiles = pass.in_volumes ? volume_blocks(pass) / 2 : pass.tiles() / least_part_tiles;
      const long most = std::min({static_cast<long>(most_parts), all_parts_sum_bytes / sum_bytes, most_for_tiles});
      parts = *std::find_if(std::begin(part_counts), std::end(part_counts) - 1,
                            [most](int count) { return count <= most; });
    }
    teams = teams_for(parts);
    if (pass.in_volumes) {
      stretches = (volume_blocks(pass) + parts - 1) / parts;
      return;
    }
    const long part_tiles = (pass.tiles() + parts - 1) / parts;
    const long kept_bytes = team_size() == 1 ? kept_bytes_alone : team_size() * kept_bytes_per_task;
    const long block = std::max<long>(1, kept_bytes / tile_bytes / least_summed_tiles) * least_summed_tiles;
    tiles = keeps_sums ? std::min(block, part_tiles) : pass.tiles();
    stretches = (part_tiles + tiles - 1) / tiles;
  }
  /// Teams of equal size, as many as have nearly as many parts each.
  static int teams_for(int parts) {
    const int tasks = concurrency();
    int teams = std::min(tasks, parts);
    while (tasks % teams != 0 || (parts + teams - 1) / teams * teams * 10 > parts * 11) --teams;
    return teams;
  }
  [[nodiscard]] long summed_tiles() const {
    const long tile_bytes = static_cast<long>(sizeof(Wide<T>)) * (input_columns + gradient_columns);
    return std::max<long>(least_summed_tiles, summed_bytes / tile_bytes);
  }
  /// Rows of a matrix of transformed tiles that are rounded to integers with one scale for each column, and how many
  /// times a stretch has these.
  [[nodiscard]] long rounded_rows(const TilePass& pass) const {
    return pass.in_volumes ? (slices + taps - 1L) * tiles : rounded_tiles;
  }
  [[nodiscard]] long roundings(const TilePass& pass) const {
    return pass.in_volumes ? 1 : (tiles + rounded_tiles - 1) / rounded_tiles;
  }
  [[nodiscard]] int team_size() const { return concurrency() / teams; }
  [[nodiscard]] int row_units() const { return (channels + unit_rows - 1) / unit_rows; }
  [[nodiscard]] int units() const { return taps * blocks.count() * row_units(); }
  [[nodiscard]] int rows(int unit) const { return std::min(unit_rows, channels - unit % row_units() * unit_rows); }
  [[nodiscard]] int first_row(int unit) const { return unit % row_units() * unit_rows; }
  [[nodiscard]] int block(int unit) const { return unit / row_units() % blocks.count(); }
  [[nodiscard]] int tap(int unit) const { return unit / row_units() / blocks.count(); }
  /// Two rows of integers, in pairs, take the place of one of floats.
  [[nodiscard]] long input_pitch() const {
    return plane_pitch<T>((slices + taps - 1) * tiles / (integers ? 2 : 1) + 1, input_columns);
  }
  [[nodiscard]] long gradient_pitch() const {
    return plane_pitch<T>(slices * tiles / (integers ? 2 : 1) + 1, gradient_columns);
  }
  [[nodiscard]] long rounded_pitch(const TilePass& pass) const {
    return plane_pitch<T>(rounded_rows(pass), blocks.width);
  }
  /// How many blocks a volume is cut into along its slices, and its slices along their tiles.
  [[nodiscard]] long runs(const TilePass& pass) const { return (pass.out_slices + slices - 1) / slices; }
  [[nodiscard]] long ranges(const TilePass& pass) const { return (pass.slice_tiles() + tiles - 1) / tiles; }
  [[nodiscard]] long volume_blocks(const TilePass& pass) const { return pass.volumes * runs(pass) * ranges(pass); }
  [[nodiscard]] long sum_pitch() const {
    return plane_pitch<T>(std::min(unit_rows, channels) + panel_rows(1), blocks.width);
  }
};

template <class T>
struct GradientPieces {
  T* zeros;
  Wide<T>* inputs;
  Wide<T>* gradients;
  Wide<T>* sums;
  Wide<T>* bias_sums;
  Wide<T>* rounded;     ///< a task's tiles in a block of columns, before they are rounded to integers
  float* input_scales;  ///< a team's (plane, rounding, column), of integers
  float* gradient_scales;
  GradientPieces(Scratch& scratch, const TilePass& pass, const GradientCut<T>& cut)
      : zeros(scratch.take<T>(winograd_points(pass.kernel) * std::max(cut.input_columns, cut.gradient_columns))),
        inputs(scratch.take<Wide<T>>(cut.teams * pass.planes() * cut.input_pitch())),
        gradients(scratch.take<Wide<T>>(cut.teams * (pass.planes() + 1) * cut.gradient_pitch())),
        sums(scratch.take<Wide<T>>((cut.keeps_sums ? cut.parts * cut.units() : concurrency()) * pass.planes() *
                                   cut.sum_pitch())),
        bias_sums(scratch.take<Wide<T>>(static_cast<long>(cut.parts) * cut.filters)),
        rounded(
            scratch.take<Wide<T>>(cut.integers ? concurrency() * (pass.planes() + 1) * cut.rounded_pitch(pass) : 0)),
        input_scales(scratch.take<float>(
            cut.integers ? cut.teams * pass.planes() * cut.roundings(pass) * cut.input_columns : 0)),
        gradient_scales(scratch.take<float>(
            cut.integers ? cut.teams * pass.planes() * cut.roundings(pass) * cut.gradient_columns : 0)) {}
};

}  // namespace halograd::host
