#include "kernels/device/conv.hpp"

#include <algorithm>

#include "kernels/channels.hpp"
#include "kernels/chunks.hpp"
#include "kernels/column_sums.hpp"
#include "kernels/device/chunk_products.hpp"
#include "kernels/device/split_product.hpp"
#include "kernels/device/tile_choice.hpp"
#include "kernels/elementwise.hpp"

namespace halograd::device {
namespace {

/// Null where it is empty.
template <class T>
T* data_or_null(const Vector<T>& values) {
  return values.size() > 0 ? values.data() : nullptr;
}

/// Channels of a group's result from which a tile has enough to do.
constexpr int least_columns = 4;

/// How the weight gradient's sum over the pixels is cut, so that all of a device has work. By the shape alone: the same
/// bits on every device. The last parts may be empty; a smaller batch has no more parts.
struct PixelParts {
  int parts;
  long pixels;  // of a part
};
PixelParts pixel_parts(const ConvShape& shape) {
  constexpr long wanted_tiles = 528, wanted_threads = 262144, tile = 128;
  const long rows = static_cast<long>(shape.taps()) * (shape.channels / shape.groups);
  const long columns = shape.filters / shape.groups;
  const bool tiled = columns >= least_columns;
  const long tiles = (rows + tile - 1) / tile * ((columns + tile - 1) / tile) * shape.groups;
  const long least_pixels = tiled ? 256 : 64;
  const long pixels = shape.out_pixels();
  const long wanted = tiled ? wanted_tiles / tiles : wanted_threads / shape.weights();
  const long parts = std::max(1L, std::min(wanted, (pixels + least_pixels - 1) / least_pixels));
  return {static_cast<int>(parts), (pixels + parts - 1) / parts};
}

/// Whether there are tiles that copy chunks of values stored so.
template <class T>
constexpr bool can_copy = false;
template <>
constexpr bool can_copy<Bfloat16> = has_copied_tiles;

/// Whether they compute a pass that reads these values.
template <class T>
bool copies_chunks(const ConvShape& shape, const T* values) {
  if constexpr (can_copy<T>) return has_chunks(shape) && has_chunks(values);
  return false;
}

/// Bytes of the weights as Bfloat16, with which a workspace of values stored so begins.
template <class T>
std::size_t rounded_bytes(const ConvShape& shape) {
  constexpr std::size_t alignment = 256;
  const std::size_t bytes = std::is_same_v<T, Bfloat16> ? sizeof(T) * static_cast<std::size_t>(shape.weights()) : 0;
  return (bytes + alignment - 1) / alignment * alignment;
}
/// Writes them for tiles that copy chunks; null for others.
template <class T>
const Bfloat16* rounded_where_copied(const ExecutionSpace& exec, const ConvShape& shape, const T* values,
                                     Vector<const Wide<T>> weights, Vector<std::byte> workspace) {
  if constexpr (can_copy<T>) {
    if (!copies_chunks(shape, values)) return nullptr;
    const Vector<Bfloat16> to = values_at<Bfloat16>(workspace, 0, weights.size());
    convert_values<float, Bfloat16>(exec, weights, to);
    return to.data();
  }
  return nullptr;
}

/// A forward product or one of data, by tiles that copy chunks.
template <class Chunks>
void compute_chunks(const ExecutionSpace& exec, const char* name, const Chunks& chunks, void* sums) {
  run_in_parts<SplitChunks>(exec, name, chunks, sums, [&](const auto& part) { multiply_chunks(exec, name, part); });
}
/// By whichever tiles can; Chunks: its form for those that copy chunks of `values`.
template <class Chunks, class T, template <class> class Product>
void compute(const ExecutionSpace& exec, const char* name, const ConvShape& shape, const Product<T>& product,
             const T* values, const Bfloat16* rounded_weights, Vector<std::byte> workspace) {
  void* const sums = workspace.data() + rounded_bytes<T>(shape);
  if constexpr (can_copy<T>) {
    if (copies_chunks(shape, values)) {
      return compute_chunks(exec, name, Chunks(product, rounded_weights), sums);
    }
  }
  run_in_parts<SplitProduct>(exec, name, product, sums,
                             [&](const auto& part) { multiply(exec, name, part, shape.precision); });
}

/// The sum of a weight gradient's parts, of which each is (taps, `pitch`) and the first `width` at a tap are wanted.
template <class T>
struct JoinParts {
  const T* sums;
  T* to;
  long taps, width, pitch;
  template <class Sum>
  KOKKOS_FUNCTION double gather(long index, const Sum& sum) const {
    const T* const from = sums + (width == pitch ? index : index / width * pitch + index % width);
    const long part_length = taps * pitch;
    return sum([=](long part) { return static_cast<double>(from[part * part_length]); });
  }
  KOKKOS_FUNCTION void finish(long index, double sum) const { to[index] = static_cast<T>(sum); }
};

/// Whether the images' channels, fewer than a chunk has, are copied with zeros behind them: tiles can then copy chunks.
template <class T>
bool pads_channels(const ConvShape& shape) {
  return can_copy<T> && shape.groups == 1 && shape.channels < chunk && shape.filters % chunk == 0;
}
ConvShape with_padded_channels(ConvShape shape) {
  shape.channels = chunk;
  return shape;
}
/// Bytes of such images; they come first in the workspace.
std::size_t padded_bytes(const ConvShape& shape) {
  return sizeof(Bfloat16) * chunk * static_cast<std::size_t>(shape.in_pixels());
}
/// (rows, channels) to (rows, chunk), in lines of `width` values each: images have 1, weights the filters.
template <class T>
const Bfloat16* pad_channels(const ExecutionSpace& exec, long rows, int channels, int width, Vector<const T> x,
                             std::byte* to) {
  auto* const padded = reinterpret_cast<Bfloat16*>(to);
  Kokkos::parallel_for(
      label("halograd::conv_pad_channels"), FlatRange(exec, 0, rows * chunk * width), KOKKOS_LAMBDA(const long index) {
        const Divided line(index, width);
        const long row = line.quotient / chunk;
        const int channel = static_cast<int>(line.quotient % chunk);
        padded[index] = channel < channels ? Wide<T>(x((row * channels + channel) * width + line.rest)) : Wide<T>(0);
      });
  return padded;
}

/// Sums of weight gradients over parts of the pixels, by tiles.
template <class T>
void multiply_pixels(const ExecutionSpace& exec, const ConvShape& shape, const WeightProduct<T>& product) {
  const char* const name = "halograd::conv_backward_weights";
  if constexpr (can_copy<T>) {
    if (copies_chunks(shape, product.x) && copies_chunks(shape, product.dy)) {
      return multiply_chunks(exec, name, WeightChunks(product));
    }
  }
  multiply(exec, name, product, shape.precision);
}

/// The same with a thread for each weight and part.
template <class T>
void sum_pixels(const ExecutionSpace& exec, const ConvShape& shape, const PixelParts& cut, const T* x, const T* dy,
                Wide<T>* sums) {
  const Geometry g(shape);
  const long pixels = shape.out_pixels(), part_pixels = cut.pixels;
  const int rows = shape.taps() * g.in_group;
  Kokkos::parallel_for(
      label("halograd::conv_backward_weights"), FlatRange(exec, 0, cut.parts * shape.weights()),
      KOKKOS_LAMBDA(const long index) {
        const Divided filter(index, g.filters), row(filter.quotient, rows);
        const int tap = row.rest / g.in_group;
        const int channel = filter.rest / g.out_group * g.in_group + row.rest % g.in_group;
        int k[3], at[4];
        g.split_tap(tap, k);
        const long begin = row.quotient * part_pixels;
        const long end = begin + part_pixels < pixels ? begin + part_pixels : pixels;
        Wide<T> sum = 0;
        g.split_output(begin, at);
        for (long pixel = begin; pixel < end; ++pixel, g.next_output(1, at)) {
          const long from = g.input_pixel(at, k);
          if (from >= 0) sum += Wide<T>(x[from * g.channels + channel]) * Wide<T>(dy[pixel * g.filters + filter.rest]);
        }
        sums[index] = sum;
      });
}

}  // namespace

template <class T>
std::size_t conv_workspace(const ConvShape& shape) {
  if (pads_channels<T>(shape)) return padded_bytes(shape) + device::conv_workspace<T>(with_padded_channels(shape));
  const std::size_t weight_sums = static_cast<std::size_t>(pixel_parts(shape).parts * shape.weights());
  const int in_group = shape.channels / shape.groups, out_group = shape.filters / shape.groups;
  const long taps = shape.taps();
  std::size_t sums = DepthParts::most_sums(shape.out_pixels(), out_group, taps * in_group, shape.groups);
  for_each_phase(shape, [&](const Phase& phase) {
    const long depth = static_cast<long>(phase.taps()) * out_group;
    sums = std::max(sums, DepthParts::most_sums(phase.pixels(), in_group, depth, shape.groups));
  });
  return std::max({weight_sums * sizeof(Wide<T>), rounded_bytes<T>(shape) + sums * sizeof(Wide<T>),
                   sum_channels_workspace(shape.out_pixels(), shape.filters) * sizeof(double)});
}

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const Wide<T>> weights,
                  Vector<const Wide<T>> bias, bool relu, Vector<T> y, Vector<std::byte> workspace) {
  if constexpr (can_copy<T>) {
    if (pads_channels<T>(shape)) {
      const ConvShape padded = with_padded_channels(shape);
      std::byte* const rest = workspace.data() + padded_bytes(shape);
      const Bfloat16* const images = pad_channels(exec, shape.in_pixels(), shape.channels, 1, x, workspace.data());
      const Bfloat16* const rounded = pad_channels(exec, shape.taps(), shape.channels, shape.filters, weights, rest);
      const ForwardProduct<T> product(padded, images, nullptr, data_or_null(bias), relu, y.data());
      return compute_chunks(exec, "halograd::conv_forward", ForwardChunks(product, rounded),
                            rest + rounded_bytes<T>(padded));
    }
  }
  if (shape.filters / shape.groups >= least_columns) {
    const ForwardProduct<T> product(shape, x.data(), weights.data(), data_or_null(bias), relu, y.data());
    return compute<ForwardChunks>(exec, "halograd::conv_forward", shape, product, x.data(),
                                  rounded_where_copied(exec, shape, x.data(), weights, workspace), workspace);
  }
  const Geometry g(shape);
  const bool has_bias = bias.size() > 0;
  Kokkos::parallel_for(
      label("halograd::conv_forward"), Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.out_pixels() * shape.filters),
      KOKKOS_LAMBDA(const long index) {
        const int k = static_cast<int>(index % g.filters);
        int at[4];
        g.split_output(index / g.filters, at);
        Wide<T> sum = has_bias ? bias(k) : Wide<T>(0);
        for (int tap = 0; tap < g.taps(); ++tap) {
          const long pixel = g.input_pixel(at, tap);
          if (pixel < 0) continue;
          const long from = pixel * g.channels + k / g.out_group * g.in_group;
          const long weight = static_cast<long>(tap) * g.in_group * g.filters + k;
          for (int c = 0; c < g.in_group; ++c) sum += x(from + c) * weights(weight + static_cast<long>(c) * g.filters);
        }
        y(index) = relu && sum < Wide<T>(0) ? Wide<T>(0) : sum;
      });
}

template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy,
                        Vector<const Wide<T>> weights, Vector<const T> relu_output, Vector<T> dx, bool accumulate,
                        Vector<std::byte> workspace) {
  if (shape.channels / shape.groups >= least_columns) {
    const Bfloat16* const rounded_weights = rounded_where_copied(exec, shape, dy.data(), weights, workspace);
    for_each_phase(shape, [&](const Phase& phase) {
      const DataProduct<T> product(shape, phase, dy.data(), weights.data(), data_or_null(relu_output), accumulate,
                                   dx.data());
      compute<DataChunks>(exec, "halograd::conv_backward_data", shape, product, dy.data(), rounded_weights, workspace);
    });
    return;
  }
  const Geometry g(shape);
  const bool masked = relu_output.size() > 0;
  Kokkos::parallel_for(
      label("halograd::conv_backward_data"),
      Kokkos::RangePolicy<ExecutionSpace>(exec, 0, shape.in_pixels() * shape.channels),
      KOKKOS_LAMBDA(const long index) {
        const int channel = static_cast<int>(index % g.channels);
        const int group = channel / g.in_group;
        int at[4];
        g.split_input(index / g.channels, at);
        Wide<T> sum = accumulate ? Wide<T>(dx(index)) : Wide<T>(0);
        for (int tap = 0; tap < g.taps(); ++tap) {
          const long pixel = g.output_pixel(at, tap);
          if (pixel < 0) continue;
          const long from = pixel * g.filters + static_cast<long>(group) * g.out_group;
          const long weight = (static_cast<long>(tap) * g.in_group + channel % g.in_group) * g.filters +
                              static_cast<long>(group) * g.out_group;
          for (int k = 0; k < g.out_group; ++k) sum += dy(from + k) * weights(weight + k);
        }
        dx(index) = masked && !(relu_output(index) > Wide<T>(0)) ? Wide<T>(0) : sum;
      });
}

template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<Wide<T>> dweights, Vector<Wide<T>> dbias, Vector<std::byte> workspace) {
  ConvShape padded = shape;
  const T* images = x.data();
  std::byte* rest = workspace.data();
  if constexpr (can_copy<T>) {
    if (pads_channels<T>(shape)) {
      padded = with_padded_channels(shape);
      images = pad_channels(exec, shape.in_pixels(), shape.channels, 1, x, rest);
      rest += padded_bytes(shape);
    }
  }
  const PixelParts cut = pixel_parts(padded);
  // tiles store quads
  const bool joined =
      cut.parts > 1 || padded.channels != shape.channels || !whole_quads(dweights.data(), padded.filters);
  Wide<T>* const sums = joined ? reinterpret_cast<Wide<T>*>(rest) : dweights.data();
  if (shape.filters / shape.groups >= least_columns) {
    multiply_pixels(exec, padded, WeightProduct<T>(padded, images, dy.data(), sums, cut.parts, cut.pixels));
  } else {
    sum_pixels(exec, padded, cut, images, dy.data(), sums);
  }
  if (joined) {
    const long width = shape.weights() / shape.taps(), pitch = padded.weights() / shape.taps();
    join_blocks(exec, "halograd::conv_weights_of_parts", shape.weights(), cut.parts,
                JoinParts<Wide<T>>{sums, dweights.data(), shape.taps(), width, pitch});
  }
  if (dbias.size() == 0) return;
  const std::size_t needed = sum_channels_workspace(shape.out_pixels(), shape.filters);
  sum_channels(exec, shape.out_pixels(), shape.filters, dy, dbias, values_at<double>(workspace, 0, needed));
}

#define HALOGRAD_INSTANTIATE(T)                                                                                        \
  template std::size_t conv_workspace<T>(const ConvShape&);                                                            \
  template void conv_forward<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const Wide<T>>,       \
                                Vector<const Wide<T>>, bool, Vector<T>, Vector<std::byte>);                            \
  template void conv_backward_data<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const Wide<T>>, \
                                      Vector<const T>, Vector<T>, bool, Vector<std::byte>);                            \
  template void conv_backward_weights<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,    \
                                         Vector<Wide<T>>, Vector<Wide<T>>, Vector<std::byte>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd::device
