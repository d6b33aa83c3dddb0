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
    if (in_group % count == 0) {  // all at one tap
      const int tap = first / in_group;
      const long pixel = tap < taps ? pixel_of(tap) : -1;
      if (pixel >= 0) {
        load(values + pixel * channels + static_cast<long>(group) * in_group + first % in_group, quads, found);
        return;
      }
      HALOGRAD_UNROLL
      for (int i = 0; i < count; ++i) found[i] = T(0);
      return;
    }
    int tap = first / in_group, channel = first % in_group;
    long pixel = tap < taps ? pixel_of(tap) : -1;
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      found[i] = pixel < 0 ? T(0) : values[pixel * channels + static_cast<long>(group) * in_group + channel];
      if (++channel < in_group) continue;
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

template <int count, class T>
KOKKOS_INLINE_FUNCTION void fetch_zeros(T (&found)[count]) {
  HALOGRAD_UNROLL
  for (int i = 0; i < count; ++i) found[i] = T(0);
}

/// y: rows = output pixels, columns = filters of the group, depth = (tap, channel of the group).
template <class T>
struct ForwardProduct {
  using Value = T;
  static constexpr Run a_run = Run::along_depth, b_run = Run::across;
  struct Place {
    int at[4];
    bool inside;
  };
  Geometry g;
  Gathered<T> x;
  const T* weights;
  const T* bias;  // or null
  bool relu, quads;
  T* y;
  long pixels;

  ForwardProduct(const ConvShape& shape, const T* input, const T* weight_values, const T* bias_values, bool with_relu,
                 T* output)
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
  template <int count>
  KOKKOS_FUNCTION void a(const Place& place, int block, long, long depth, T (&found)[count]) const {
    x.fetch(
        block, depth, [&](int tap) { return place.inside ? g.input_pixel(place.at, tap) : -1L; }, found);
  }
  template <int count>
  KOKKOS_FUNCTION void b(int block, long column, long at, T (&found)[count]) const {
    if (at >= depth()) return fetch_zeros(found);
    fetch_row(weights + at * g.filters + static_cast<long>(block) * g.out_group, column, columns(), quads, found);
  }
  KOKKOS_FUNCTION void store(int block, long row, long column, T sum) const {
    const long filter = static_cast<long>(block) * g.out_group + column;
    if (bias != nullptr) sum += bias[filter];
    y[row * g.filters + filter] = relu && sum < T(0) ? T(0) : sum;
  }
};

/// dx: rows = input pixels, columns = channels of the group, depth = (tap, filter of the group).
template <class T>
struct DataProduct {
  using Value = T;
  static constexpr Run a_run = Run::along_depth, b_run = Run::along_depth;
  using Place = typename ForwardProduct<T>::Place;
  Geometry g;
  Gathered<T> dy;
  const T* weights;
  const T* relu_output;  // or null
  bool accumulate, quads;
  T* dx;
  long pixels;

  DataProduct(const ConvShape& shape, const T* gradient, const T* weight_values, const T* rectified, bool add,
              T* result)
      : g(shape),
        dy(gradient, g.filters, g.out_group, g.taps()),
        weights(weight_values),
        relu_output(rectified),
        accumulate(add),
        quads(whole_quads(weight_values, g.filters) && g.out_group % 4 == 0),
        dx(result),
        pixels(shape.in_pixels()) {}
  [[nodiscard]] KOKKOS_FUNCTION long rows() const { return pixels; }
  [[nodiscard]] KOKKOS_FUNCTION long columns() const { return g.in_group; }
  [[nodiscard]] KOKKOS_FUNCTION long depth() const { return static_cast<long>(g.taps()) * g.out_group; }
  [[nodiscard]] int blocks() const { return g.channels / g.in_group; }

  [[nodiscard]] KOKKOS_FUNCTION Place place(int, long row) const {
    Place place{};
    place.inside = row < pixels;
    if (place.inside) g.split_input(row, place.at);
    return place;
  }
  template <int count>
  KOKKOS_FUNCTION void a(const Place& place, int block, long, long depth, T (&found)[count]) const {
    dy.fetch(
        block, depth, [&](int tap) { return place.inside ? g.output_pixel(place.at, tap) : -1L; }, found);
  }
  /// A filter's weight at a tap and channel is beside the next filter's.
  template <int count>
  KOKKOS_FUNCTION void b(int block, long column, long at, T (&found)[count]) const {
    const auto row_of = [&](long tap) {
      return weights + (tap * g.in_group + column) * g.filters + static_cast<long>(block) * g.out_group;
    };
    if (column >= columns() || at >= depth()) return fetch_zeros(found);
    if (g.out_group % count == 0) return load(row_of(at / g.out_group) + at % g.out_group, quads, found);
    HALOGRAD_UNROLL
    for (int i = 0; i < count; ++i) {
      found[i] = at + i < depth() ? row_of((at + i) / g.out_group)[(at + i) % g.out_group] : T(0);
    }
  }
  KOKKOS_FUNCTION void store(int block, long row, long column, T sum) const {
    const long index = row * g.channels + static_cast<long>(block) * g.in_group + column;
    if (accumulate) sum += dx[index];
    dx[index] = relu_output != nullptr && !(relu_output[index] > T(0)) ? T(0) : sum;
  }
};

/// dweights, or a part of the sum: rows = (tap, channel of the group), columns = filters of the group, depth = output
/// pixels. A block is a group and a part of the pixels; parts follow each other at `sums`.
template <class T>
struct WeightProduct {
  using Value = T;
  static constexpr Run a_run = Run::across, b_run = Run::across;
  struct Place {
    int tap, channel;  // of the first value
  };
  Geometry g;
  const T* x;
  const T* dy;
  T* sums;
  long pixels, part_pixels;
  int parts;
  bool x_quads, dy_quads;

  WeightProduct(const ConvShape& shape, const T* input, const T* gradient, T* result, int in_parts, long pixels_of_part)
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
  /// The pixel at a depth of a block's part; -1 behind its end.
  [[nodiscard]] KOKKOS_FUNCTION long pixel_of(int block, long depth) const {
    const long pixel = block % parts * part_pixels + depth;
    return depth < part_pixels && pixel < pixels ? pixel : -1;
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
  KOKKOS_FUNCTION void store(int block, long row, long column, T sum) const {
    const long part = block % parts;
    sums[(part * rows() + row) * g.filters + static_cast<long>(group_of(block)) * g.out_group + column] = sum;
  }
};

}  // namespace halograd::device
