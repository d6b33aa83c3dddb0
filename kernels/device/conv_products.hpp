#pragma once

#include "kernels/device/geometry.hpp"
#include "kernels/device/tile.hpp"

/// The three passes of a convolution as matrix products whose A is gathered from a tensor while it is fetched (Chetlur
/// et al., 2014): nothing is copied before. A block is a group.
namespace halograd::device {

/// Whether `values` and every `pitch` values from there begin a quad.
template <class T>
bool whole_quads(const T* values, long pitch) {
  return reinterpret_cast<std::uintptr_t>(values) % sizeof(Quad<T>) == 0 && pitch % 4 == 0;
}

template <int count, class T>
KOKKOS_INLINE_FUNCTION void fetch_zeros(T (&found)[count]) {
  HALOGRAD_UNROLL
  for (int i = 0; i < count; ++i) found[i] = T(0);
}

/// A row of A, gathered at `pixels(tap)` of a tensor (pixels, channels): depth = (tap, channel of the group).
template <class T>
struct Gathered {
  const T* values;
  int channels, in_group, taps;
  bool quads;

  Gathered(const T* tensor, int all_channels, int group_channels, int all_taps)
      : values(tensor),
        channels(all_channels),
        in_group(group_channels),
        taps(all_taps),
        quads(whole_quads(tensor, all_channels) && group_channels % 4 == 0) {}

  template <int count, class PixelOf>
  KOKKOS_FUNCTION void fetch(int group, long depth, const PixelOf& pixel_of, T (&found)[count]) const {
    const int first = static_cast<int>(depth);
    if (in_group % count == 0) return fetch_pieces<count>(group, first, pixel_of, found);  // all at one tap
    if constexpr (count % 4 == 0) {
      if (in_group % 4 == 0) return fetch_pieces<4>(group, first, pixel_of, found);
    }
    fetch_pieces<1>(group, first, pixel_of, found);
  }

 private:
  /// `piece` values, each at one tap, at a time.
  template <int piece, int count, class PixelOf>
  KOKKOS_FUNCTION void fetch_pieces(int group, int first, const PixelOf& pixel_of, T (&found)[count]) const {
    int tap = first / in_group, channel = first % in_group;
    long pixel = tap < taps ? pixel_of(tap) : -1;
    HALOGRAD_UNROLL
    for (int i = 0; i < count; i += piece) {
      T values_here[piece];
      if (pixel >= 0) {
        load(values + pixel * channels + static_cast<long>(group) * in_group + channel, quads, values_here);
      } else {
        fetch_zeros(values_here);
      }
      HALOGRAD_UNROLL
      for (int j = 0; j < piece; ++j) found[i + j] = values_here[j];
      channel += piece;
      if (channel < in_group || i + piece == count) continue;
      channel = 0;
      ++tap;
      pixel = tap < taps ? pixel_of(tap) : -1;
    }
  }
};

/// Values [column, column + count) of a row of a matrix (rows, pitch), zero from `columns` on.
template <int count, class T>
KOKKOS_INLINE_FUNCTION void fetch_row(const T* row, long column, long columns, bool quads, T (&found)[count]) {
  if (column + count <= columns) {
    load(row + column, quads, found);
    return;
  }
  HALOGRAD_UNROLL
  for (int i = 0; i < count; ++i) found[i] = column + i < columns ? row[column + i] : T(0);
}

/// y: rows = output pixels, columns = filters of the group, depth = (tap, channel of the group).
template <class T>
struct ForwardProduct {
  using Value = Wide<T>;
  using Stored = T;
  using Factor = Wide<T>;
  static constexpr Run a_run = Run::along_depth, b_run = Run::across;
  struct Place {
    int at[4];
    bool inside;
  };
  Geometry g;
  Gathered<T> x;
  const Wide<T>* weights;
  const Wide<T>* bias;  // or null
  bool relu, quads;
  T* y;
  long pixels;

  ForwardProduct(const ConvShape& shape, const T* input, const Wide<T>* weight_values, const Wide<T>* bias_values,
                 bool with_relu, T* output)
      : g(shape),
        x(input, g.channels, g.in_group, g.taps()),
        weights(weight_values),
        bias(bias_values),
        relu(with_relu),
        quads(whole_quads(weight_values, g.filters) && g.out_group % 4 == 0),
        y(output),
        pixels(shape.out_pixels()) {}
  [[nodiscard]] KOKKOS_FUNCTION long rows() const { return pixels; }
  [[nodiscard]] KOKKOS_FUNCTION long columns() const { return g.out_group; }
  [[nodiscard]] KOKKOS_FUNCTION long depth() const { return static_cast<long>(g.taps()) * g.in_group; }
  [[nodiscard]] int blocks() const { return g.channels / g.in_group; }

  [[nodiscard]] KOKKOS_FUNCTION Place place(int, long row) const {
    Place place{};
    place.inside = row < pixels;
    if (place.inside) g.split_output(row, place.at);
    return place;
  }
  /// The pixel of x that a row reads at a tap, or -1.
  [[nodiscard]] KOKKOS_FUNCTION long pixel(const Place& place, int tap) const {
    return place.inside ? g.input_pixel(place.at, tap) : -1;
  }
  template <int count>
  KOKKOS_FUNCTION void a(const Place& place, int block, long, long depth, T (&found)[count]) const {
    x.fetch(
        block, depth, [&](int tap) { return pixel(place, tap); }, found);
  }
  template <int count>
  KOKKOS_FUNCTION void b(int block, long column, long at, Factor (&found)[count]) const {
    if (at >= depth()) return fetch_zeros(found);
    fetch_row(weights + at * g.filters + static_cast<long>(block) * g.out_group, column, columns(), quads, found);
  }
  [[nodiscard]] KOKKOS_FUNCTION static long result_row(long row) { return row; }
  /// What `count` results beside each other are stored with: read for some of them before the first is written.
  template <int count>
  struct Before {
    Value bias[count];
  };
  template <int count>
  [[nodiscard]] KOKKOS_FUNCTION Before<count> before(int block, long, long column) const {
    Before<count> before;
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      before.bias[i] = bias != nullptr ? bias[static_cast<long>(block) * g.out_group + column + i] : Value(0);
    }
    return before;
  }
  /// y begins a group of so many there.
  template <int count>
  KOKKOS_FUNCTION void store(int block, long row, long column, const Value (&sums)[count],
                             const Before<count>& before) const {
    Together<T, count> results;
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      const Value sum = sums[i] + before.bias[i];
      results.value[i] = relu && sum < Value(0) ? Value(0) : sum;
    }
    results.store(y + row * g.filters + static_cast<long>(block) * g.out_group + column);
  }
};

/// dx at one phase: rows = its input pixels, columns = channels of the group, depth = (its tap, filter of the group).
template <class T>
struct DataProduct {
  using Value = Wide<T>;
  using Stored = T;
  using Factor = Wide<T>;
  static constexpr Run a_run = Run::along_depth, b_run = Run::along_depth;
  using Place = typename ForwardProduct<T>::Place;
  Geometry g;
  Phase phase;
  Gathered<T> dy;
  const Wide<T>* weights;
  const T* relu_output;  // or null
  bool accumulate, quads;
  T* dx;

  DataProduct(const ConvShape& shape, const Phase& of_strides, const T* gradient, const Wide<T>* weight_values,
              const T* rectified, bool add, T* result)
      : g(shape),
        phase(of_strides),
        dy(gradient, g.filters, g.out_group, phase.taps()),
        weights(weight_values),
        relu_output(rectified),
        accumulate(add),
        quads(whole_quads(weight_values, g.filters) && g.out_group % 4 == 0),
        dx(result) {}
  [[nodiscard]] KOKKOS_FUNCTION long rows() const { return phase.pixels(); }
  [[nodiscard]] KOKKOS_FUNCTION long columns() const { return g.in_group; }
  [[nodiscard]] KOKKOS_FUNCTION long depth() const { return static_cast<long>(phase.taps()) * g.out_group; }
  [[nodiscard]] int blocks() const { return g.channels / g.in_group; }

  [[nodiscard]] KOKKOS_FUNCTION Place place(int, long row) const {
    Place place{};
    place.inside = row < rows();
    if (place.inside) phase.split(row, place.at);
    return place;
  }
  /// The pixel of dy that a row reads at a tap, or -1.
  [[nodiscard]] KOKKOS_FUNCTION long pixel(const Place& place, int tap) const {
    return place.inside ? phase.output_pixel(place.at, tap) : -1;
  }
  template <int count>
  KOKKOS_FUNCTION void a(const Place& place, int block, long, long depth, T (&found)[count]) const {
    dy.fetch(
        block, depth, [&](int tap) { return pixel(place, tap); }, found);
  }
  /// The row of weights of a tap and a channel of the group.
  [[nodiscard]] KOKKOS_FUNCTION long weights_row(int tap, long channel) const {
    return static_cast<long>(phase.kernel_tap(tap, g)) * g.in_group + channel;
  }
  /// A filter's weight at a tap and channel is beside the next filter's.
  template <int count>
  KOKKOS_FUNCTION void b(int block, long column, long at, Factor (&found)[count]) const {
    const auto row_of = [&](int tap) {
      return weights + weights_row(tap, column) * g.filters + static_cast<long>(block) * g.out_group;
    };
    if (column >= columns() || at >= depth()) return fetch_zeros(found);
    const int first = static_cast<int>(at);
    if (g.out_group % count == 0) return load(row_of(first / g.out_group) + first % g.out_group, quads, found);
    int tap = first / g.out_group, filter = first % g.out_group;
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      found[i] = tap < phase.taps() ? row_of(tap)[filter] : Factor(0);
      if (++filter < g.out_group) continue;
      filter = 0;
      ++tap;
    }
  }
  /// The pixel of dx.
  [[nodiscard]] KOKKOS_FUNCTION long result_row(long row) const { return phase.input_pixel(row, g); }
  [[nodiscard]] KOKKOS_FUNCTION long index(int block, long pixel, long column) const {
    return pixel * g.channels + static_cast<long>(block) * g.in_group + column;
  }
  template <int count>
  struct Before {
    Together<T, count> sum, rectified;
  };
  template <int count>
  [[nodiscard]] KOKKOS_FUNCTION Before<count> before(int block, long pixel, long column) const {
    Before<count> before{};
    const long at = index(block, pixel, column);
    if (accumulate) before.sum.load(dx + at);
    if (relu_output != nullptr) before.rectified.load(relu_output + at);
    return before;
  }
  template <int count>
  KOKKOS_FUNCTION void store(int block, long pixel, long column, const Value (&sums)[count],
                             const Before<count>& before) const {
    Together<T, count> results;
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      const Value sum = accumulate ? sums[i] + before.sum.value[i] : sums[i];
      results.value[i] = relu_output != nullptr && !(before.rectified.value[i] > Value(0)) ? Value(0) : sum;
    }
    results.store(dx + index(block, pixel, column));
  }
};

/// dweights, or a part of the sum: rows = (tap, channel of the group), columns = filters of the group, depth = output
/// pixels. A block is a group and a part of the pixels; parts follow each other at `sums`.
template <class T>
struct WeightProduct : StoredAlone {
  using Value = Wide<T>;
  using Stored = T;
  using Factor = T;
  static constexpr Run a_run = Run::across, b_run = Run::across;
  struct Place {
    int tap, channel;  // of the first value
  };
  Geometry g;
  const T* x;
  const T* dy;
  Wide<T>* sums;
  long pixels, part_pixels;
  int parts;
  bool x_quads, dy_quads;

  WeightProduct(const ConvShape& shape, const T* input, const T* gradient, Wide<T>* result, int in_parts,
                long pixels_of_part)
      : g(shape),
        x(input),
        dy(gradient),
        sums(result),
        pixels(shape.out_pixels()),
        part_pixels(pixels_of_part),
        parts(in_parts),
        x_quads(whole_quads(input, g.channels) && g.in_group % 4 == 0),
        dy_quads(whole_quads(gradient, g.filters) && g.out_group % 4 == 0) {}
  [[nodiscard]] KOKKOS_FUNCTION long rows() const { return static_cast<long>(g.taps()) * g.in_group; }
  [[nodiscard]] KOKKOS_FUNCTION long columns() const { return g.out_group; }
  [[nodiscard]] KOKKOS_FUNCTION long depth() const { return part_pixels; }
  [[nodiscard]] int blocks() const { return g.channels / g.in_group * parts; }
  [[nodiscard]] KOKKOS_FUNCTION int group_of(int block) const { return block / parts; }
  /// The pixels of a block's part.
  [[nodiscard]] KOKKOS_FUNCTION long first_of(int block) const { return block % parts * part_pixels; }
  [[nodiscard]] KOKKOS_FUNCTION long end_of(int block) const {
    const long end = first_of(block) + part_pixels;
    return end < pixels ? end : pixels;
  }
  /// The one at a depth; -1 behind the end.
  [[nodiscard]] KOKKOS_FUNCTION long pixel_of(int block, long depth) const {
    const long pixel = first_of(block) + depth;
    return pixel < end_of(block) ? pixel : -1;
  }

  [[nodiscard]] KOKKOS_FUNCTION Place place(int, long row) const {
    return {static_cast<int>(row / g.in_group), static_cast<int>(row % g.in_group)};
  }
  template <int count>
  KOKKOS_FUNCTION void a(const Place& place, int block, long row, long depth, T (&found)[count]) const {
    const long pixel = pixel_of(block, depth);
    if (pixel < 0 || row >= rows()) return fetch_zeros(found);
    int at[4];
    g.split_output(pixel, at);
    const T* const group = x + static_cast<long>(group_of(block)) * g.in_group;
    if (g.in_group % count == 0) {
      const long from = g.input_pixel(at, place.tap);
      if (from < 0) return fetch_zeros(found);
      return load(group + from * g.channels + place.channel, x_quads, found);
    }
    int tap = place.tap, channel = place.channel;
    long from = g.input_pixel(at, tap);
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      found[i] = from < 0 ? T(0) : group[from * g.channels + channel];
      if (++channel < g.in_group) continue;
      channel = 0;
      ++tap;
      from = tap < g.taps() ? g.input_pixel(at, tap) : -1;
    }
  }
  template <int count>
  KOKKOS_FUNCTION void b(int block, long column, long depth, T (&found)[count]) const {
    const long pixel = pixel_of(block, depth);
    if (pixel < 0) return fetch_zeros(found);
    fetch_row(dy + pixel * g.filters + static_cast<long>(group_of(block)) * g.out_group, column, columns(), dy_quads,
              found);
  }
  template <int count>
  KOKKOS_FUNCTION void store(int block, long row, long column, const Value (&found)[count],
                             const Before<count>&) const {
    const long part = block % parts;
    store_quads(found,
                sums + (part * rows() + row) * g.filters + static_cast<long>(group_of(block)) * g.out_group + column);
  }
};

}  // namespace halograd::device
