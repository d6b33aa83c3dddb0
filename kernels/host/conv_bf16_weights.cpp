#include "kernels/host/bf16_blocks.hpp"
#include "kernels/host/blocking.hpp"
#include "kernels/host/conv_bf16.hpp"

namespace halograd::host::bf16 {
namespace {

/// Values of the partial gradients at most, and their number.
constexpr long most_partial_values = 1L << 18U;
constexpr long most_parts = 16;
/// Channels that a task takes at a time.
constexpr int channels_at_once = 2 * tile_width;
/// Bytes of a cache's line: what is fetched of a pixel, channels_at_once values.
constexpr long line_bytes = 64;
/// Steps of depth that all taps go through before the next ones.
constexpr int steps_at_once = 32;

/// What a tap reads along an axis: of each image the positions stride i + phase, from i = output + shift on.
struct AxisTap {
  int phase, shift;
};
AxisTap axis_tap(const ConvShape& shape, int axis, int index) {
  const int offset = shape.axis(axis).offset(index), stride = shape.stride[axis];
  const int phase = (offset % stride + stride) % stride;
  return {phase, (offset - phase) / stride};
}

/// The lowest shift of any tap, and how much further the highest reaches.
struct Shifts {
  ConvShape::Spatial lowest, reach;
  explicit Shifts(const ConvShape& shape) {
    for (int axis = 0; axis < 3; ++axis) {
      lowest[axis] = axis_tap(shape, axis, 0).shift;
      reach[axis] = axis_tap(shape, axis, shape.kernel[axis] - 1).shift - lowest[axis];
    }
  }
};

/// A tap of one phase of the input, and where it reads for an output at position 0.
struct ShiftedTap {
  int tap;
  long shift;
};

/// A function of the shape and of the unit alone, as are the parts.
OutputBlocks blocks_of(const ConvShape& shape, const Shifts& shifts, bool outruns_caches) {
  constexpr long most_outputs = 2048;
  const int most_images = shape.weights() * 2 <= most_partial_values ? std::max(1, shape.batch / 16) : shape.batch;
  // Small blocks stay in the caches; to many weights, sums are added less often.
  const long outputs =
      outruns_caches ? most_outputs : std::clamp(static_cast<long>(shape.weights()) / 128, 512L, most_outputs);
  return OutputBlocks(shape.batch, shape.out_extent(), {1, 1, 1}, shifts.reach, {1, 1, 1}, channels_at_once,
                      most_images, outputs);
}

/// The gradient is (taps, channels, filters), the last two padded to whole tiles where they are none.
struct GradientScratch {
  long channels, filters, values;
  int parts;
  long steps;            ///< of a block: strips of 32 positions
  long positions;        ///< of a block, and those that strips read behind it
  bool padded;           ///< (channels, filters) are more than those of the weights
  float* sums;           ///< (parts, values)
  float* bias;           ///< (parts, filters)
  long* sources;         ///< a task's (positions): the value of x there, or -1
  std::uint16_t* left;   ///< a task's (channels_at_once, positions): positions along the depth
  std::uint16_t* right;  ///< a task's dy, (filters, steps)
  long* begins;
  long* outs;
  ShiftedTap* taps;  ///< a task's (taps)
  GradientScratch(Scratch& scratch, const ConvShape& shape, const OutputBlocks& blocks)
      : channels(whole_widths(shape.channels)),
        filters(whole_widths(shape.filters)),
        values(shape.taps() * channels * filters),
        parts(
            static_cast<int>(std::max<long>(1, std::min({most_parts, most_partial_values / values, blocks.number()})))),
        steps(blocks.strips(tile_depth)),
        positions((whole_steps(blocks.positions()) + 1) * tile_depth),
        padded(channels > shape.channels || filters > shape.filters) {
    if (positions % 512 == 0) positions += tile_depth;  // lines a power of two apart share a few sets of the cache
    sums = scratch.take<float>(in_place() ? 0 : parts * values);
    bias = scratch.take<float>(parts * filters);
    sources = scratch.take<long>(concurrency() * positions);
    left = scratch.take<std::uint16_t>(concurrency() * channels_at_once * positions);
    right = scratch.take<std::uint16_t>(concurrency() * filters * steps * tile_depth);
    begins = scratch.take<long>(concurrency() * steps);
    outs = scratch.take<long>(concurrency() * steps * tile_depth);
    taps = scratch.take<ShiftedTap>(static_cast<long>(concurrency()) * shape.taps());
  }
  /// Whether the sums are dweights.
  [[nodiscard]] bool in_place() const { return parts == 1 && !padded; }
};

/// The values of a tensor.
struct Values {
  const Bfloat16* first;
  long count;
  /// Sixteen of them from `at` + `channel` on; zeros where at is negative. Behind a pixel's last channel are those of
  /// the next pixel: sums of them are not kept.
  const Bfloat16* row(long at, long channel, Bfloat16* copy) const {
    static constexpr Bfloat16 zeros[tile_width] = {};
    return at < 0 ? zeros : readable_row(first + at + channel, count - at - channel, copy);
  }
};

class WeightGradient {
 public:
  WeightGradient(const ConvShape& shape, const Shifts& shifts, const OutputBlocks& blocks,
                 const GradientScratch& scratch, const Bfloat16* x, const Bfloat16* dy, float* sums)
      : shape_(shape),
        shifts_(shifts),
        blocks_(blocks),
        scratch_(scratch),
        x_{x, shape.in_pixels() * shape.channels},
        dy_{dy, shape.out_pixels() * shape.filters},
        sums_(sums) {}

  /// Channels [first, last) of the gradient of one part of the blocks, and its bias.
  void compute(const Session& session, int part, long first, long last, bool with_bias, int task) const {
    float* const bias = with_bias ? scratch_.bias + part * scratch_.filters : nullptr;
    if (with_bias) std::fill_n(bias, scratch_.filters, 0.0F);
    const Share share(blocks_.number(), part, scratch_.parts);
    for (long index = share.begin; index < share.end; ++index) {
      const OutputBlock block = blocks_.block(index);
      Strips<tile_depth> strips{1, scratch_.begins + task * scratch_.steps,
                                scratch_.outs + task * scratch_.steps * tile_depth};
      list_strips(block, strips);
      std::uint16_t* const right = scratch_.right + task * scratch_.filters * scratch_.steps * tile_depth;
      pack_right(strips, right);
      if (bias != nullptr) add_bias(strips, bias);
      const long groups = (last - first + channels_at_once - 1) / channels_at_once;
      const Lines next_dy = index + 1 < share.end ? lines_of_dy(blocks_.block(index + 1)) : Lines{};
      float* const sums = sums_ + part * scratch_.values;
      for_each_phase(shape_, [&](const ConvShape::Spatial& phase) {
        const PhaseTaps taps = list_taps(phase, task);
        if (taps.count == 0) return;
        long* const sources = scratch_.sources + task * scratch_.positions;
        list_sources(block, phase, sources);
        std::uint16_t* const left = scratch_.left + task * channels_at_once * scratch_.positions;
        for (long channel = first; channel < last; channel += channels_at_once) {
          const long end = std::min(last, channel + channels_at_once);
          pack_left(sources, channel, end, left);
          Lines next_x;
          if (end < last) {
            next_x = lines_of_x(block, end);
          } else if (index + 1 < share.end) {
            next_x = lines_of_x(blocks_.block(index + 1), first);
          }
          add_taps(session, taps, static_cast<int>((end - channel) / tile_width), left, strips, right,
                   sums + channel * scratch_.filters, index > share.begin, next_x,
                   next_dy.piece((channel - first) / channels_at_once, groups));
        }
      });
    }
  }

 private:
  void list_strips(const OutputBlock& block, Strips<tile_depth>& strips) const {
    blocks_.for_each_row(block, [&](long position, int n, int d, int h) {
      const long row = (static_cast<long>(n) * blocks_.count[0] + d) * blocks_.count[1] + h;
      strips.add_row(position, blocks_.count[2], row * blocks_.count[2] * shape_.filters, shape_.filters);
    });
  }

  /// dy at the strips' positions.
  void pack_right(const Strips<tile_depth>& strips, std::uint16_t* right) const {
    const Values dy = dy_;
    Bfloat16 copies[2][tile_width];
    auto* to = reinterpret_cast<std::uint32_t*>(right);
    for (long filter = 0; filter < scratch_.filters; filter += tile_width) {
      const long* out = strips.out;
      for (long pair = 0; pair < static_cast<long>(strips.count) * tile_depth / 2; ++pair, out += 2, to += tile_width) {
        pair_rows(dy.row(out[0], filter, copies[0]), dy.row(out[1], filter, copies[1]), to);
      }
    }
  }

  void add_bias(const Strips<tile_depth>& strips, float* bias) const {
    Bfloat16 copy[tile_width];
    for (long filter = 0; filter < scratch_.filters; filter += tile_width) {
      Row sums{}, values;
      for (long i = 0; i < static_cast<long>(strips.count) * tile_depth; ++i) {
        widen_row(dy_.row(strips.out[i], filter, copy), values);
        sums += values;
      }
      load_row(bias + filter, values);
      sums += values;
      std::memcpy(bias + filter, &sums, sizeof(sums));
    }
  }

  /// Where each position of one phase of the input is.
  void list_sources(const OutputBlock& block, const ConvShape::Spatial& phase, long* sources) const {
    const int extents[3] = {blocks_.extent(0, blocks_.planes), blocks_.extent(1, blocks_.rows),
                            blocks_.extent(2, blocks_.count[2])};
    const int first[3] = {block.plane, block.row, 0};
    const auto coordinate = [&](int axis, int i) {
      return (first[axis] + i + shifts_.lowest[axis]) * shape_.stride[axis] + phase[axis];
    };
    long* to = sources;
    for (int n = 0; n < block.images; ++n) {
      for (int i = 0; i < extents[0]; ++i) {
        for (int j = 0; j < extents[1]; ++j) {
          const int d = coordinate(0, i), h = coordinate(1, j);
          const bool inside = d >= 0 && d < shape_.extent[0] && h >= 0 && h < shape_.extent[1];
          const long row =
              ((static_cast<long>(block.image + n) * shape_.extent[0] + d) * shape_.extent[1] + h) * shape_.extent[2];
          for (int k = 0; k < extents[2]; ++k) {
            const int w = coordinate(2, k);
            *to++ = inside && w >= 0 && w < shape_.extent[2] ? (row + w) * shape_.channels : -1;
          }
        }
      }
    }
    std::fill(to, sources + scratch_.positions, -1);
  }

  /// Channels [first, last) of the sources, positions along a line.
  void pack_left(const long* sources, long first, long last, std::uint16_t* left) const {
    const Values x = x_;
    Bfloat16 copies[2][tile_width];
    std::uint32_t tile[tile_values / 2], mirrored[tile_values / 2];
    for (long channel = first; channel < last; channel += tile_width, left += tile_width * scratch_.positions) {
      for (long position = 0; position < scratch_.positions; position += tile_depth) {
        for (int p = 0; p < tile_depth; p += 2) {
          const long* const pair = sources + position + p;
          pair_rows(x.row(pair[0], channel, copies[0]), x.row(pair[1], channel, copies[1]), tile + p / 2 * tile_width);
        }
        mirror_tile(tile, mirrored);
        for (int c = 0; c < tile_width; ++c) {
          Pairs line;  // not the result of a call: vectors have another ABI on each vector unit
          std::memcpy(&line, mirrored + c * tile_width, sizeof(line));
          std::memcpy(left + c * scratch_.positions + position, &line, sizeof(line));
        }
      }
    }
  }

  /// A block's outputs.
  [[nodiscard]] Lines lines_of_dy(const OutputBlock& block) const {
    const long row = (static_cast<long>(block.image) * blocks_.count[0] + block.plane) * blocks_.count[1] + block.row;
    const long rows = static_cast<long>(block.images) * block.planes * block.rows;
    const long values = blocks_.count[2] * static_cast<long>(shape_.filters);
    return {dy_.first + row * values, line_bytes, rows * values * static_cast<long>(sizeof(Bfloat16)) / line_bytes};
  }
  /// What a block reads from `channel` on, about; nothing with strides, of whose phases each reads some of a row.
  [[nodiscard]] Lines lines_of_x(const OutputBlock& block, long channel) const {
    if (shape_.stride != ConvShape::Spatial{1, 1, 1}) return {};
    const long row = (static_cast<long>(block.image) * shape_.extent[0] + block.plane) * shape_.extent[1] + block.row;
    return {x_.first + row * shape_.extent[2] * shape_.channels + channel,
            static_cast<long>(sizeof(Bfloat16)) * shape_.channels, block.images * blocks_.phase_positions()};
  }

  struct PhaseTaps {
    const ShiftedTap* first;
    int count;
  };
  [[nodiscard]] PhaseTaps list_taps(const ConvShape::Spatial& phase, int task) const {
    ShiftedTap* const taps = scratch_.taps + static_cast<long>(task) * shape_.taps();
    int count = 0;
    for (int tap = 0; tap < shape_.taps(); ++tap) {
      const int index[3] = {tap / (shape_.kernel[1] * shape_.kernel[2]), tap / shape_.kernel[2] % shape_.kernel[1],
                            tap % shape_.kernel[2]};
      bool same = true;
      int shift[3];
      for (int axis = 0; axis < 3; ++axis) {
        const AxisTap at = axis_tap(shape_, axis, index[axis]);
        same = same && at.phase == phase[axis];
        shift[axis] = at.shift - shifts_.lowest[axis];
      }
      if (same) taps[count++] = {tap, blocks_.position(shift[0], shift[1], shift[2])};
    }
    return {taps, count};
  }

  /// What taps add to the sums of `row_blocks` tiles of channels.
  void add_taps(const Session& session, const PhaseTaps& taps, int row_blocks, const std::uint16_t* left,
                const Strips<tile_depth>& strips, const std::uint16_t* right, float* sums, bool accumulate,
                const Lines& next_x, const Lines& next_dy) const {
    const long filter_blocks = scratch_.filters / tile_width;
    const long products = ((strips.count + steps_at_once - 1) / steps_at_once) * ((filter_blocks + 1) / 2) * taps.count;
    long product = 0;
    const long pitch = static_cast<long>(strips.count) * tile_values;
    // Some steps in all taps, then the next: what they read of both operands stays in the cache.
    for (int step = 0; step < strips.count; step += steps_at_once) {
      const int steps = std::min(steps_at_once, strips.count - step);
      for (long block = 0; block < filter_blocks; block += 2) {
        for (int i = 0; i < taps.count; ++i) {
          const auto [tap, shift] = taps.first[i];
          const std::uint16_t* const rows[] = {left + shift, left + tile_width * scratch_.positions + shift};
          session.multiply({rows,
                            strips.begin + step,
                            scratch_.positions,
                            row_blocks,
                            right + block * pitch + static_cast<long>(step) * tile_values,
                            pitch,
                            static_cast<int>(std::min(2L, filter_blocks - block)),
                            steps,
                            sums + tap * scratch_.channels * scratch_.filters + block * tile_width,
                            scratch_.filters,
                            accumulate || step > 0,
                            {next_x.piece(product, products), next_dy.piece(product, products)}});
          ++product;
        }
      }
    }
  }

  const ConvShape& shape_;
  const Shifts& shifts_;
  const OutputBlocks& blocks_;
  const GradientScratch& scratch_;
  Values x_, dy_;
  float* sums_;
};

}  // namespace

std::size_t weights_workspace(const ConvShape& shape) {
  std::size_t most = 0;
  for (const bool outruns_caches : {false, true}) {
    Scratch scratch(nullptr);
    GradientScratch(scratch, shape, blocks_of(shape, Shifts(shape), outruns_caches));
    most = std::max(most, scratch.used());
  }
  return most;
}

void backward_weights(const Exec& exec, const Unit& unit, const ConvShape& shape, const Bfloat16* x, const Bfloat16* dy,
                      float* dweights, float* dbias, std::byte* workspace) {
  const Shifts shifts(shape);
  const OutputBlocks blocks = blocks_of(shape, shifts, unit.outruns_caches());
  Scratch pieces(workspace);
  const GradientScratch scratch(pieces, shape, blocks);
  float* const sums = scratch.in_place() ? dweights : scratch.sums;
  const WeightGradient gradient(shape, shifts, blocks, scratch, x, dy, sums);
  const long groups = (scratch.channels + channels_at_once - 1) / channels_at_once;
  const int tasks = concurrency();
  // A task owns a contiguous share of all channels of all parts.
  parallel_tasks(exec, "halograd::conv_bf16_weights", tasks, [&](int task) {
    const Share share(scratch.parts * groups, task, tasks);
    const Session session(unit);
    for (long at = share.begin; at < share.end;) {
      const long part = at / groups, first = at % groups, last = std::min(groups, share.end - part * groups);
      gradient.compute(session, static_cast<int>(part), first * channels_at_once,
                       std::min(scratch.channels, last * channels_at_once), dbias != nullptr && first == 0, task);
      at += last - first;
    }
  });
  if (scratch.parts > 1) {
    add_parts(exec, sums, scratch.parts, scratch.values, scratch.values, scratch.padded ? sums : dweights);
  }
  if (scratch.padded) {
    for (long row = 0; row < static_cast<long>(shape.taps()) * shape.channels; ++row) {
      const float* const from =
          sums + (row / shape.channels * scratch.channels + row % shape.channels) * scratch.filters;
      std::copy(from, from + shape.filters, dweights + row * shape.filters);
    }
  }
  if (dbias == nullptr) return;
  add_parts(exec, scratch.bias, scratch.parts, scratch.filters, scratch.filters, scratch.bias);
  std::copy(scratch.bias, scratch.bias + shape.filters, dbias);
}

}  // namespace halograd::host::bf16
