#include <type_traits>

#include "kernels/host/blocking.hpp"
#include "kernels/host/direct.hpp"
#include "kernels/host/gather.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/host/prefetch.hpp"

/// Depthwise convolution, y[p][c] = sum over taps of x[p + tap][c] weights[tap][c]: lanes over channels, so that
/// nothing is packed; each pass reads through a table of row pointers.
namespace halograd::host {
namespace {

/// Packs of channels that a tile takes, pixels of a forward tile, and lines (taps, bias) of a gradient tile.
constexpr int wide_packs = 2;
constexpr int tile_pixels = simd_registers >= 32 ? 8 : 6;
constexpr int line_packs = simd_registers >= 32 ? 2 : 1;
constexpr int most_lines = 9;
static_assert(table_pixels % tile_pixels == 0);
/// The gradient's pixels are cut into at most this many parts, added up in order: the result does not depend on the
/// number of threads.
constexpr long most_depthwise_parts = 64;
constexpr long most_depthwise_values = 65536;

template <class T>
struct DepthwiseScratch {
  int parts, lines;
  T* zeros;
  T* ones;  ///< what the bias reads, as if it were a tap
  const T** tables;
  Wide<T>* partial;  ///< (parts, lines, channels)
  Tap* taps;
  DepthwiseScratch(Scratch& scratch, const ConvShape& shape)
      : parts(static_cast<int>(std::max<long>(
            1, std::min({most_depthwise_parts, most_depthwise_values / (shape.taps() + 1) / shape.channels,
                         (shape.out_pixels() + table_pixels - 1) / table_pixels})))),
        lines(shape.taps() + 1),
        zeros(scratch.take<T>(shape.channels)),
        ones(scratch.take<T>(shape.channels)),
        tables(scratch.take<const T*>(static_cast<long>(concurrency()) * lines * table_pixels)),
        partial(scratch.take<Wide<T>>(static_cast<long>(parts) * lines * shape.channels)),
        taps(scratch.take<Tap>(shape.taps())) {}
  [[nodiscard]] const T** table(int task) const { return tables + static_cast<long>(task) * lines * table_pixels; }
};

/// Calls visit(packs, whole, first) for blocks of channels: of `packs` packs, the last one perhaps not whole. Both are
/// constants of the type.
template <class T, int most, class Visit>
void for_each_channel_block(int channels, const Visit& visit) {
  int first = 0;
  for (; first + most * lanes<T> <= channels; first += most * lanes<T>) {
    visit(std::integral_constant<int, most>(), std::true_type(), first);
  }
  for (; first + lanes<T> <= channels; first += lanes<T>) {
    visit(std::integral_constant<int, 1>(), std::true_type(), first);
  }
  if (first < channels) visit(std::integral_constant<int, 1>(), std::false_type(), first);
}

template <bool whole, class T>
Pack<T> load_channels(const T* from, int count) {
  if constexpr (whole) {
    return load<T>(from);
  } else {
    return load_part<T>(from, count);
  }
}

/// What a forward pass, or the data gradient of one phase, reads and writes.
template <class T>
struct DepthwisePass {
  TapMap map;
  Lattice lattice;  ///< of the pixels that are written
  const T* in;      ///< (pixels, channels)
  long in_pixels, out_pixels;
  const Wide<T>* weights;
  const Wide<T>* bias;  ///< (channels), or null
  int channels;
  Target<T> target;
};

/// tile_pixels pixels, of which `valid` are stored at `out`, and V packs of channels from `first` on.
template <int V, bool whole, class T>
void weigh_taps(const DepthwisePass<T>& pass, const T* const* rows, int first, const long* out, int valid) {
  const TapMap& map = pass.map;
  const Wide<T>* const weights = pass.weights;
  const Wide<T>* const bias = pass.bias;
  const int channels = pass.channels, count = channels - first;
  Pack<T> sum[tile_pixels][V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const Pack<T> start =
        bias == nullptr ? Pack<T>{} : load_channels<whole>(bias + first + v * lanes<T>, count - v * lanes<T>);
#pragma GCC unroll 8
    for (auto& pixel_sums : sum) pixel_sums[v] = start;
  }
  for (int t = 0; t < map.taps(); ++t, rows += table_pixels) {
    const Wide<T>* const from = weights + static_cast<long>(map.tap(t).kernel_index) * channels + first;
    Pack<T> weight[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) weight[v] = load_channels<whole>(from + v * lanes<T>, count - v * lanes<T>);
#pragma GCC unroll 8
    for (int m = 0; m < tile_pixels; ++m) {
      const T* const row = rows[m] + first;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        sum[m][v] += load_channels<whole>(row + v * lanes<T>, count - v * lanes<T>) * weight[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < tile_pixels; ++m) {
    if (m >= valid) break;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) pass.target.store(sum[m][v], out[m] + first + v * lanes<T>, count - v * lanes<T>);
  }
}

template <class T>
void weigh_image(const Exec& exec, const char* label, const DepthwiseScratch<T>& scratch,
                 const DepthwisePass<T>& pass) {
  const Lattice& lattice = pass.lattice;
  const int channels = pass.channels;
  const long pixels = lattice.pixels();
  const long stretches = (pixels + table_pixels - 1) / table_pixels;
  // What the last tap reads, rows behind the pixel's own, is new where others were read before.
  const int taps = pass.map.taps();  // none may reach the pixels of a phase
  const long behind = taps > 0 ? std::max(0L, pass.map.tap(taps - 1).delta) : 0;
  const long ahead = 1 + behind * stretches / pass.in_pixels;
  const int tasks = concurrency();
  parallel_tasks(exec, label, tasks, [&](int task) {
    const Share share(stretches, task, tasks);
    TapTable<T> table(pass.map, scratch.table(task), table_pixels);
    long out[table_pixels];
    for (long stretch = share.begin; stretch < share.end; ++stretch) {
      const long first_pixel = stretch * table_pixels;
      const int valid = static_cast<int>(std::min<long>(table_pixels, pixels - first_pixel));
      for_each_line(lattice, first_pixel, valid, [&](const Pixel& pixel, int at, int length) {
        const long start = pixel.position(lattice);
        for (int i = 0; i < length; ++i) out[at + i] = (start + i * lattice.step[2]) * channels;
      });
      table.fill(lattice, first_pixel, valid, pass.in, channels, false, scratch.zeros);
      const long tiles = (valid + tile_pixels - 1) / tile_pixels;
      Prefetch next_in(pass.in, pass.in_pixels * channels, stretches, stretch + ahead, 1, tiles);
      Prefetch next_out(pass.target.out, pass.out_pixels * channels, stretches, stretch + 1, 1, tiles);
      for (int p = 0; p < valid; p += tile_pixels) {
        next_in.read();
        next_out.write();
        for_each_channel_block<T, wide_packs>(channels, [&](auto packs, auto whole, int first) {
          weigh_taps<packs.value, whole.value>(pass, table.line(0) + p, first, out + p,
                                               std::min(tile_pixels, valid - p));
        });
      }
    }
  });
}

/// sums[line][channel] (+)= the sum over pixels p of rows[line][p][channel] dy[p][channel], for some lines and V packs
/// of channels from `first` on.
template <int lines, int V, bool whole, class T>
void sum_pixels(const T* const* rows, int pixels, const T* dy, int channels, int first, Wide<T>* sums,
                bool accumulate) {
  const int count = channels - first;
  Pack<T> sum[lines][V] = {};
  const T* gradient = dy + first;
  for (int p = 0; p < pixels; ++p, gradient += channels) {
    Pack<T> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load_channels<whole>(gradient + v * lanes<T>, count - v * lanes<T>);
#pragma GCC unroll 16
    for (int t = 0; t < lines; ++t) {
      const T* const row = rows[t * table_pixels + p] + first;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        sum[t][v] += load_channels<whole>(row + v * lanes<T>, count - v * lanes<T>) * right[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < lines; ++t) {
    const Target<Wide<T>> target{sums, nullptr, accumulate, false};
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      target.store(sum[t][v], static_cast<long>(t) * channels + first + v * lanes<T>, count - v * lanes<T>);
    }
  }
}
template <int V, bool whole, class T, int lines = most_lines>
void sum_lines(int wanted, const T* const* rows, int pixels, const T* dy, int channels, int first, Wide<T>* sums,
               bool accumulate) {
  if (wanted == lines) return sum_pixels<lines, V, whole>(rows, pixels, dy, channels, first, sums, accumulate);
  if constexpr (lines > 1) {
    sum_lines<V, whole, T, lines - 1>(wanted, rows, pixels, dy, channels, first, sums, accumulate);
  }
}

}  // namespace

bool is_depthwise(const ConvShape& shape) {
  return shape.groups > 1 && shape.groups == shape.channels && shape.groups == shape.filters;
}

template <class T>
std::size_t depthwise_workspace(const ConvShape& shape) {
  Scratch scratch(nullptr);
  DepthwiseScratch<T>(scratch, shape);
  return scratch.used();
}

template <class T>
void depthwise_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights,
                       const Wide<T>* bias, bool relu, T* y, std::byte* workspace) {
  Scratch pieces(workspace);
  const DepthwiseScratch<T> scratch(pieces, shape);
  std::fill_n(scratch.zeros, shape.channels, T(0));
  weigh_image<T>(exec, "halograd::depthwise_forward", scratch,
                 {.map = TapMap::forward(shape, scratch.taps),
                  .lattice = Lattice{shape.batch, shape.out_extent()},
                  .in = x,
                  .in_pixels = shape.in_pixels(),
                  .out_pixels = shape.out_pixels(),
                  .weights = weights,
                  .bias = bias,
                  .channels = shape.channels,
                  .target = {y, nullptr, false, relu}});
}

template <class T>
void depthwise_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                             const T* relu_output, T* dx, bool accumulate, std::byte* workspace) {
  Scratch pieces(workspace);
  const DepthwiseScratch<T> scratch(pieces, shape);
  std::fill_n(scratch.zeros, shape.channels, T(0));
  for_each_phase(shape, [&](const ConvShape::Spatial& phase) {
    weigh_image<T>(exec, "halograd::depthwise_backward_data", scratch,
                   {.map = TapMap::transposed(shape, phase, scratch.taps),
                    .lattice = Lattice{shape.batch, shape.extent, phase, shape.stride},
                    .in = dy,
                    .in_pixels = shape.out_pixels(),
                    .out_pixels = shape.in_pixels(),
                    .weights = weights,
                    .bias = nullptr,
                    .channels = shape.channels,
                    .target = {dx, relu_output, accumulate, false}});
  });
}

template <class T>
void depthwise_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                                Wide<T>* dbias, std::byte* workspace) {
  Scratch pieces(workspace);
  const DepthwiseScratch<T> scratch(pieces, shape);
  const int channels = shape.channels;
  std::fill_n(scratch.zeros, channels, T(0));
  std::fill_n(scratch.ones, channels, T(1));
  const TapMap map = TapMap::forward(shape, scratch.taps);
  const Lattice lattice{shape.batch, shape.out_extent()};
  const int lines = dbias == nullptr ? shape.taps() : shape.taps() + 1;
  const int chunks = (lines + most_lines - 1) / most_lines;
  const long part_length = static_cast<long>(scratch.lines) * channels;
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::depthwise_backward_weights", tasks, [&](int task) {
    const Share parts(scratch.parts, task, tasks);
    const T** const storage = scratch.table(task);
    std::fill_n(storage + static_cast<long>(shape.taps()) * table_pixels, table_pixels, scratch.ones);
    TapTable<T> table(map, storage, table_pixels);
    for (long part = parts.begin; part < parts.end; ++part) {
      const Share pixels(lattice.pixels(), static_cast<int>(part), scratch.parts);
      for (long first = pixels.begin; first < pixels.end; first += table_pixels) {
        const int count = static_cast<int>(std::min<long>(table_pixels, pixels.end - first));
        table.fill(lattice, first, count, x, channels, false, scratch.zeros);
        for (int chunk = 0; chunk < chunks; ++chunk) {
          const Share share(lines, chunk, chunks);
          for_each_channel_block<T, line_packs>(channels, [&](auto packs, auto whole, int channel) {
            sum_lines<packs.value, whole.value, T>(
                static_cast<int>(share.end - share.begin), storage + share.begin * table_pixels, count,
                dy + first * channels, channels, channel, scratch.partial + part * part_length + share.begin * channels,
                first > pixels.begin);
          });
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
