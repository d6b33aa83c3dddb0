#include <memory>

#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/gather.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/prefetch.hpp"

/// Depthwise convolution, y[p][c] = sum over taps of x[p + tap][c] weights[tap][c]: lanes over channels. Rows of the
/// image that is read are copied once into packs of channels, pixel after pixel, with zeros where taps read outside:
/// loads then need no pointer of their own, what a pack needs is in few lines of the cache, and memory is read and
/// written in its order.
namespace halograd::host {
namespace {

/// Taps whose weights, or whose sums, are in registers.
constexpr int most_taps = 9;
/// Values of a row that are computed at a time, so that the rows that they need stay in the second-level cache.
constexpr int most_row_values = 16384;
/// Values ahead of what is read or written, for which memory is asked in time: hardware stops fetching ahead where a
/// page ends.
constexpr long page = 1024;
/// The weights' gradient is cut into at most this many parts, added up in order: the result does not depend on the
/// number of threads.
constexpr long most_depthwise_parts = 64;
constexpr long most_depthwise_values = 65536;

/// How a pass cuts rows. The pixels of one phase are counted by their coordinates over the strides: q reads at
/// q step + low, ..., q step + low + span - 1 along each axis.
struct RowPlan {
  ConvShape::Spatial low, span;
  int step;        ///< along a row
  int pixels;      ///< of a phase that are computed at a time
  int stretches;   ///< of that many, in a row
  int positions;   ///< that these read
  int slots;       ///< rows that are kept
  bool in_order;   ///< stretches read one row each, in the order of memory
  int rows_ahead;  ///< from a stretch to the first whose row is not read yet

  static RowPlan forward(const ConvShape& shape) {
    RowPlan plan{};
    for (int axis = 0; axis < 3; ++axis) {
      const WindowAxis window = shape.axis(axis);
      plan.reach(axis, window.offset(0), window.offset(window.kernel - 1));
    }
    plan.cut(shape.out_extent()[2], shape.stride[2], shape.channels, shape.stride);
    return plan;
  }
  static RowPlan transposed(const ConvShape& shape) {
    RowPlan plan{};
    for (int axis = 0; axis < 3; ++axis) {
      const WindowAxis window = shape.axis(axis);
      const auto output = [&](int input) {  // rounded down
        return (input < 0 ? input - window.stride + 1 : input) / window.stride;
      };
      plan.reach(axis, output(-window.offset(window.kernel - 1)), output(window.stride - 1 - window.offset(0)));
    }
    plan.cut((shape.extent[2] + shape.stride[2] - 1) / shape.stride[2], 1, shape.channels, shape.stride);
    return plan;
  }

 private:
  void reach(std::size_t axis, int lowest, int highest) {
    low[axis] = lowest;
    span[axis] = highest - lowest + 1;
  }
  void cut(int count, int along, int channels, const ConvShape::Spatial& stride) {
    const int most = std::clamp(most_row_values / channels, 8, 128);
    step = along;
    stretches = std::max(1, (count + most - 1) / most);
    pixels = (count + stretches - 1) / stretches;
    positions = std::max(0, pixels - 1) * step + span[2];
    slots = span[0] * span[1];
    in_order = stretches == 1 && stride == ConvShape::Spatial{1, 1, 1};
    rows_ahead = low[1] + span[1];
  }
};

/// A stretch of a row of the pixels that a pass computes: plan.pixels from first_q on.
struct Stretch {
  int n, d, h, index, first_q;
  /// They follow one another along a column of stretches: rows that one reads are still there for the next.
  Stretch(const ConvShape::Spatial& image, const RowPlan& plan, long number) {
    h = static_cast<int>(number % image[1]);
    number /= image[1];
    index = static_cast<int>(number % plan.stretches);
    number /= plan.stretches;
    d = static_cast<int>(number % image[0]);
    n = static_cast<int>(number / image[0]);
    first_q = index * plan.pixels;
  }
  static long count(int batch, const ConvShape::Spatial& image, const RowPlan& plan) {
    return static_cast<long>(batch) * image[0] * image[1] * plan.stretches;
  }
  /// The first pixel of the row.
  [[nodiscard]] long row(const ConvShape::Spatial& image) const {
    return ((static_cast<long>(n) * image[0] + d) * image[1] + h) * image[2];
  }
};

/// What the written pixels of one phase read.
struct Phase {
  TapMap map;
  int first_tap;  ///< among those of all phases
};

template <class T>
struct DepthwiseScratch {
  RowPlan plan;
  int channels, packs, taps, parts;
  long row_pitch, sum_pitch;  ///< from one pack of channels to the next, in packs: odd, for the sets of the cache
  Pack<T>* zeros;             ///< (packs, row_pitch)
  Pack<T>* rows;              ///< (tasks, slots, packs, row_pitch)
  Pack<T>* sums;              ///< (tasks, phases of a row, packs, sum_pitch): what is written; or rows of dy
  long* held;                 ///< (tasks, slots)
  const Pack<T>** pointers;   ///< (tasks, taps)
  Pack<T>* weights;           ///< (packs, taps of all phases)
  Wide<T>* partial;           ///< (parts, taps + 1, channels): the last line is the bias
  Phase* phases;
  Tap* tap_storage;

  DepthwiseScratch(Scratch& scratch, const ConvShape& shape, const RowPlan& rows_of)
      : plan(rows_of),
        channels(shape.channels),
        packs((channels + lanes<T> - 1) / lanes<T>),
        taps(shape.taps()),
        parts(static_cast<int>(
            std::max<long>(1, std::min({most_depthwise_parts, most_depthwise_values / (taps + 1) / channels,
                                        Stretch::count(shape.batch, shape.out_extent(), plan)})))),
        row_pitch(plan.positions | 1),
        sum_pitch(plan.pixels | 1) {
    const long tasks = concurrency();
    zeros = scratch.take<Pack<T>>(packs * row_pitch);
    rows = scratch.take<Pack<T>>(tasks * plan.slots * packs * row_pitch);
    sums = scratch.take<Pack<T>>(tasks * shape.stride[2] * packs * sum_pitch);
    held = scratch.take<long>(tasks * plan.slots);
    pointers = scratch.take<const Pack<T>*>(tasks * taps);
    weights = scratch.take<Pack<T>>(static_cast<long>(packs) * taps);
    partial = scratch.take<Wide<T>>(static_cast<long>(parts) * (taps + 1) * channels);
    phases = scratch.take<Phase>(static_cast<long>(shape.stride[0]) * shape.stride[1] * shape.stride[2]);
    tap_storage = scratch.take<Tap>(taps);
  }
};

/// Copies `count` pixels: to[pack pitch + pixel].
template <class T>
void copy_pixels(const T* from, long count, int channels, Pack<T>* to, long pitch) {
  const int whole = channels / lanes<T>;
  for (long p = 0; p < count; ++p, from += channels, ++to) {
    for (int v = 0; v < whole; ++v) {
      __builtin_prefetch(from + v * lanes<T> + page, 0, 2);
      to[v * pitch] = load<T>(from + v * lanes<T>);
    }
    if (whole * lanes<T> < channels)
      to[whole * pitch] = load_part(from + whole * lanes<T>, channels - whole * lanes<T>);
  }
}

/// A task's copies of rows of an image (N, D, H, W, C).
template <class T>
class CopiedRows {
 public:
  CopiedRows(const DepthwiseScratch<T>& scratch, long task, const T* image, const ConvShape::Spatial& extent)
      : scratch_(scratch),
        values_(scratch.packs * scratch.row_pitch),
        rows_(scratch.rows + task * scratch.plan.slots * values_),
        held_(scratch.held + task * scratch.plan.slots),
        image_(image),
        extent_(extent) {
    std::fill_n(held_, scratch.plan.slots, -1);
  }

  /// What the taps of a stretch read, whose tap of zero offset is in the row at[0], at[1]: (packs, row_pitch) each,
  /// from what its first pixel reads on.
  void find(const Stretch& stretch, const ConvShape::Spatial& at, const TapMap& map, const Pack<T>** pointers) {
    for (int t = 0; t < map.taps(); ++t) {
      const Tap& tap = map.tap(t);
      pointers[t] = row(stretch, at[0] + tap.offset[0], at[1] + tap.offset[1]) + tap.offset[2] - scratch_.plan.low[2];
    }
  }

 private:
  const Pack<T>* row(const Stretch& stretch, int d, int h) {
    if (d < 0 || d >= extent_[0] || h < 0 || h >= extent_[1]) return scratch_.zeros;
    const RowPlan& plan = scratch_.plan;
    const int slot = d % plan.span[0] * plan.span[1] + h % plan.span[1];
    Pack<T>* const to = rows_ + slot * values_;
    const long number = (static_cast<long>(stretch.n) * extent_[0] + d) * extent_[1] + h;
    if (held_[slot] != number * plan.stretches + stretch.index) {
      held_[slot] = number * plan.stretches + stretch.index;
      const int first = stretch.first_q * plan.step + plan.low[2];
      const IndexRange inside = indices_inside(first, 1, extent_[2], plan.positions);
      copy_pixels(image_ + (number * extent_[2] + first + inside.begin) * scratch_.channels, inside.end - inside.begin,
                  scratch_.channels, to + inside.begin, scratch_.row_pitch);
      for (int v = 0; v < scratch_.packs; ++v) {
        Pack<T>* const pack = to + v * scratch_.row_pitch;
        std::fill(pack, pack + inside.begin, Pack<T>{});
        std::fill(pack + inside.end, pack + plan.positions, Pack<T>{});
      }
    }
    return to;
  }

  const DepthwiseScratch<T>& scratch_;
  long values_;
  Pack<T>* rows_;
  long* held_;
  const T* image_;
  ConvShape::Spatial extent_;
};

/// sums[p] = start[p start_step] + the sum over `wanted` taps of rows[tap][offset + p step] weights[tap].
/// `ahead` is fetched meanwhile, a step for each pixel.
template <class P, int count = most_taps>
void add_taps(int wanted, const P* const* rows, long offset, const P* weights, int pixels, int step, const P* start,
              int start_step, P* sums, Prefetch::Pace ahead) {
  if constexpr (count > 0) {
    if (wanted < count) {
      return add_taps<P, count - 1>(wanted, rows, offset, weights, pixels, step, start, start_step, sums, ahead);
    }
  }
  const P* from[count + 1];
  P weight[count + 1];
#pragma GCC unroll 9
  for (int t = 0; t < count; ++t) {
    from[t] = rows[t] + offset;
    weight[t] = weights[t];
  }
  long at = 0;
  for (int p = 0; p < pixels; ++p, at += step) {
    __builtin_prefetch(ahead.at + p * ahead.step, 0, 2);
    P sum = start[p * start_step];
#pragma GCC unroll 9
    for (int t = 0; t < count; ++t) sum += from[t][at] * weight[t];
    sums[p] = sum;
  }
}

/// What a forward pass, or the data gradient, reads and writes.
template <class T>
struct DepthwisePass {
  const T* in;  ///< (N, in_extent, channels)
  ConvShape::Spatial in_extent;
  const Wide<T>* weights;
  const Wide<T>* bias;  ///< (channels), or null
  Lattice written;      ///< the pixels of the first phase
  Target<T> target;
};

/// Writes what the phases of a row have summed up, in the order of memory.
template <class T>
void write_stretch(const DepthwiseScratch<T>& scratch, const DepthwisePass<T>& pass, const Stretch& stretch,
                   const Pack<T>* sums) {
  const ConvShape::Spatial& image = pass.written.image;
  const int channels = scratch.channels, whole = channels / lanes<T>, step = pass.written.step[2];
  const int first = stretch.first_q * step, last = std::min(image[2], first + scratch.plan.pixels * step);
  const long begin = (stretch.row(image) + first) * channels;
  const auto sums_of = [&](int pixel) {
    return sums + pixel % step * scratch.packs * scratch.sum_pitch + pixel / step;
  };
  pass.target.store_whole([&](const auto& store) {
    for (int pixel = 0; pixel < last - first; ++pixel) {
      const Pack<T>* const from = sums_of(pixel);
      const long out = begin + static_cast<long>(pixel) * channels;
      for (int v = 0; v < whole; ++v) {
        __builtin_prefetch(pass.target.out + out + v * lanes<T> + page, 1, 3);
        store(from[v * scratch.sum_pitch], out + v * lanes<T>);
      }
    }
  });
  if (whole == scratch.packs) return;
  for (int pixel = 0; pixel < last - first; ++pixel) {
    pass.target.store(sums_of(pixel)[whole * scratch.sum_pitch],
                      begin + static_cast<long>(pixel) * channels + whole * lanes<T>, channels - whole * lanes<T>);
  }
}

/// Writes an image, whose phases are scratch.phases, in the order of for_each_phase.
template <class T>
void weigh_image(const Exec& exec, const char* label, const DepthwiseScratch<T>& scratch,
                 const DepthwisePass<T>& pass) {
  const RowPlan& plan = scratch.plan;
  const ConvShape::Spatial &image = pass.written.image, &step = pass.written.step;
  const int channels = scratch.channels, packs = scratch.packs;
  Pack<T>* weight = scratch.weights;
  for (int channel = 0; channel < channels; channel += lanes<T>) {
    for (int i = 0; i < step[0] * step[1] * step[2]; ++i) {
      const TapMap& map = scratch.phases[i].map;
      for (int t = 0; t < map.taps(); ++t) {
        *weight++ = load_part(pass.weights + static_cast<long>(map.tap(t).kernel_index) * channels + channel,
                              channels - channel);
      }
    }
  }
  std::fill_n(scratch.zeros, packs * scratch.row_pitch, Pack<T>{});
  const long stretches = Stretch::count(pass.written.batch, image, plan);
  const long pixels = static_cast<long>(pass.written.batch) * pass.in_extent[0] * pass.in_extent[1] * pass.in_extent[2];
  const int tasks = concurrency();
  parallel_tasks(exec, label, tasks, [&](int task) {
    const Share share(stretches, task, tasks);
    CopiedRows<T> rows(scratch, task, pass.in, pass.in_extent);
    const Pack<T>** const pointers = scratch.pointers + static_cast<long>(task) * scratch.taps;
    Pack<T>* const sums = scratch.sums + static_cast<long>(task) * step[2] * packs * scratch.sum_pitch;
    for (long number = share.begin; number < share.end; ++number) {
      const Stretch stretch(image, plan, number);
      const Phase* const phases = scratch.phases + (stretch.d % step[0] * step[1] + stretch.h % step[1]) * step[2];
      Pack<T>* to = sums;
      Prefetch next;
      if (plan.in_order) next = Prefetch(pass.in, pixels * channels, stretches, number + plan.rows_ahead, 1, packs);
      for (int i = 0; i < step[2]; ++i) {
        const TapMap& map = phases[i].map;
        rows.find(stretch, map.scaled(stretch.d, stretch.h, 0), map, pointers);
        for (int v = 0; v < packs; ++v, to += scratch.sum_pitch) {
          const Pack<T> bias =
              pass.bias == nullptr ? Pack<T>{} : load_part(pass.bias + v * lanes<T>, channels - v * lanes<T>);
          const Pack<T>* start = &bias;
          int done = 0;
          do {
            add_taps(std::min(most_taps, map.taps() - done), pointers + done, v * scratch.row_pitch,
                     scratch.weights + static_cast<long>(v) * scratch.taps + phases[i].first_tap + done, plan.pixels,
                     plan.step, start, done > 0 ? 1 : 0, to, next.over(plan.pixels));
            start = to;
            done += most_taps;
          } while (done < map.taps());
        }
      }
      write_stretch(scratch, pass, stretch, sums);
    }
  });
}

/// sums[tap][channel] += the sum over pixels p of rows[tap][offset + p step] dy[p], for some taps and one pack, of
/// which `left` channels are there.
template <class P, class W, int count = most_taps>
void sum_pixels(int wanted, const P* const* rows, long offset, int step, int pixels, const P* dy, int channels,
                int left, W* sums, Prefetch::Pace ahead, Prefetch::Pace ahead_dy) {
  if constexpr (count > 1) {
    if (wanted < count) {
      return sum_pixels<P, W, count - 1>(wanted, rows, offset, step, pixels, dy, channels, left, sums, ahead, ahead_dy);
    }
  }
  const P* from[count];
  P sum[count] = {};
#pragma GCC unroll 9
  for (int t = 0; t < count; ++t) from[t] = rows[t] + offset;
  long at = 0;
  for (int p = 0; p < pixels; ++p, at += step) {
    __builtin_prefetch(ahead.at + p * ahead.step, 0, 2);
    __builtin_prefetch(ahead_dy.at + p * ahead_dy.step, 0, 2);
    const P right = dy[p];
#pragma GCC unroll 9
    for (int t = 0; t < count; ++t) sum[t] += from[t][at] * right;
  }
  const Target<W> target{sums, nullptr, true, false};
#pragma GCC unroll 9
  for (int t = 0; t < count; ++t) target.store(sum[t], static_cast<long>(t) * channels, left);
}

}  // namespace

bool is_depthwise(const ConvShape& shape) {
  return shape.groups > 1 && shape.groups == shape.channels && shape.groups == shape.filters;
}

template <class T>
std::size_t depthwise_workspace(const ConvShape& shape) {
  Scratch forward(nullptr), transposed(nullptr);
  DepthwiseScratch<T>(forward, shape, RowPlan::forward(shape));
  DepthwiseScratch<T>(transposed, shape, RowPlan::transposed(shape));
  return std::max(forward.used(), transposed.used());
}

template <class T>
void depthwise_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights,
                       const Wide<T>* bias, bool relu, T* y, std::byte* workspace) {
  Scratch pieces(workspace);
  const DepthwiseScratch<T> scratch(pieces, shape, RowPlan::forward(shape));
  std::construct_at(scratch.phases, Phase{TapMap::forward(shape, scratch.tap_storage), 0});
  weigh_image<T>(exec, "halograd::depthwise_forward", scratch,
                 {.in = x,
                  .in_extent = shape.extent,
                  .weights = weights,
                  .bias = bias,
                  .written = {shape.batch, shape.out_extent()},
                  .target = {y, nullptr, false, relu}});
}

template <class T>
void depthwise_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                             const T* relu_output, T* dx, bool accumulate, std::byte* workspace) {
  Scratch pieces(workspace);
  const DepthwiseScratch<T> scratch(pieces, shape, RowPlan::transposed(shape));
  Phase* next = scratch.phases;
  int taps = 0;
  for_each_phase(shape, [&](const ConvShape::Spatial& start) {
    std::construct_at(next, Phase{TapMap::transposed(shape, start, scratch.tap_storage + taps), taps});
    taps += next->map.taps();
    ++next;
  });
  weigh_image<T>(exec, "halograd::depthwise_backward_data", scratch,
                 {.in = dy,
                  .in_extent = shape.out_extent(),
                  .weights = weights,
                  .bias = nullptr,
                  .written = {shape.batch, shape.extent, {0, 0, 0}, shape.stride},
                  .target = {dx, relu_output, accumulate, false}});
}

template <class T>
void depthwise_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                                Wide<T>* dbias, std::byte* workspace) {
  Scratch pieces(workspace);
  const DepthwiseScratch<T> scratch(pieces, shape, RowPlan::forward(shape));
  const RowPlan& plan = scratch.plan;
  const TapMap map = TapMap::forward(shape, scratch.tap_storage);
  const int channels = shape.channels, packs = scratch.packs;
  const ConvShape::Spatial out = shape.out_extent();
  const long part_length = static_cast<long>(scratch.taps + 1) * channels;
  std::fill_n(scratch.zeros, packs * scratch.row_pitch, Pack<T>{});
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::depthwise_backward_weights", tasks, [&](int task) {
    const Share parts(scratch.parts, task, tasks);
    CopiedRows<T> rows(scratch, task, x, shape.extent);
    const Pack<T>** const pointers = scratch.pointers + static_cast<long>(task) * scratch.taps;
    Pack<T>* const gradient = scratch.sums + static_cast<long>(task) * shape.stride[2] * packs * scratch.sum_pitch;
    for (long part = parts.begin; part < parts.end; ++part) {
      Wide<T>* const sums = scratch.partial + part * part_length;
      std::fill_n(sums, part_length, Wide<T>(0));
      const Share share(Stretch::count(shape.batch, out, plan), static_cast<int>(part), scratch.parts);
      for (long number = share.begin; number < share.end; ++number) {
        const Stretch stretch(out, plan, number);
        const int pixels = std::min(plan.pixels, out[2] - stretch.first_q);
        rows.find(stretch, map.scaled(stretch.d, stretch.h, 0), map, pointers);
        const T* const from = dy + (stretch.row(out) + stretch.first_q) * channels;
        copy_pixels(from, pixels, channels, gradient, scratch.sum_pitch);
        Prefetch images, gradients;
        if (plan.in_order) {
          const long all = Stretch::count(shape.batch, out, plan);
          images = Prefetch(x, shape.in_pixels() * channels, all, number + plan.rows_ahead, 1, packs);
          gradients = Prefetch(dy, shape.out_pixels() * channels, all, number + 1, 1, packs);
        }
        for (int v = 0; v < packs; ++v) {
          for (int tap = 0; tap < map.taps(); tap += most_taps) {
            sum_pixels(std::min(most_taps, map.taps() - tap), pointers + tap, v * scratch.row_pitch, plan.step, pixels,
                       gradient + v * scratch.sum_pitch, channels, channels - v * lanes<T>,
                       sums + static_cast<long>(tap) * channels + v * lanes<T>, images.over(pixels),
                       gradients.over(pixels));
          }
        }
        if (dbias == nullptr) continue;
        Wide<T>* const bias = sums + shape.weights();
        for (int p = 0; p < pixels; ++p) {
          for (int c = 0; c < channels; ++c) bias[c] += from[static_cast<long>(p) * channels + c];
        }
      }
    }
  });
  add_parts(exec, scratch.partial, scratch.parts, part_length, shape.weights(), dweights);
  if (dbias == nullptr) return;
  add_parts(exec, scratch.partial + shape.weights(), scratch.parts, part_length, channels, dbias);
}

#define HALOGRAD_INSTANTIATE(T)                                                                                      \
  template std::size_t depthwise_workspace<T>(const ConvShape&);                                                     \
  template void depthwise_forward<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const Wide<T>*, bool,  \
                                     T*, std::byte*);                                                                \
  template void depthwise_backward_data<T>(const Exec&, const ConvShape&, const T*, const Wide<T>*, const T*, T*,    \
                                           bool, std::byte*);                                                        \
  template void depthwise_backward_weights<T>(const Exec&, const ConvShape&, const T*, const T*, Wide<T>*, Wide<T>*, \
                                              std::byte*);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::host
