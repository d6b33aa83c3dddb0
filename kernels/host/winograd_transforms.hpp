#pragma once

#include "kernels/host/microkernel.hpp"

/// The linear maps of Winograd's minimal filtering, y = A^T [(G g G^T) . (B^T d B)] A (A. Lavin and S. Gray, "Fast
/// Algorithms for Convolutional Neural Networks", 2016), for tiles of 4x4 outputs: under 3x3 kernels with the six
/// points 0, 2/3, -2/3, 3/2, -3/2 and infinity, whose results lose half as many digits as those of the usual 1 and 2;
/// under 5x5 kernels with the eight points 0, 1, -1, infinity, 2, -2, 1/2 and -1/2. In these orders the rows of a half
/// of B^T share their sums. Lanes are channels, so a transform is additions of whole packs. Each map is written for one
/// axis and applied to the two axes in turn; the first axis is done in two halves, whose intermediate values then fit
/// in the registers.
namespace halograd::host {

constexpr int winograd_outputs = 4;  ///< of a tile, on an axis
/// Points on an axis, for kernels of r x r.
constexpr int winograd_points(int r) {
  return winograd_outputs + r - 1;
}
/// Matrix products that a tile takes part in.
constexpr int winograd_planes(int r) {
  return winograd_points(r) * winograd_points(r);
}
/// The six points but 0 and infinity, which are each other's inverses, and what a kernel is multiplied by at them.
template <class T>
struct SixPoints {
  static constexpr T low = T(2) / 3, high = T(3) / 2;
  static constexpr T low_square = low * low, high_square = high * high, squares = low_square + high_square;
  static constexpr T at_low = 1 / (2 * low_square * (low_square - high_square));
  static constexpr T at_high = 1 / (2 * high_square * (high_square - low_square));
};
template <class P>
using SixPointsOf = SixPoints<std::remove_cvref_t<decltype(std::declval<P>()[0])>>;

/// What the even and the odd powers give, joined at a point and at its negative.
template <class P>
[[gnu::always_inline]] inline void at_both_signs(const P& even, const P& odd, P& at, P& at_negative) {
  at = even + odd;
  at_negative = even - odd;
}

/// The low or high half of the rows of B^T d.
template <bool high, class P>
[[gnu::always_inline]] inline void input_half(const P (&d)[6], P (&to)[3]) {
  using At = SixPointsOf<P>;
  if constexpr (!high) {
    to[0] = (d[0] + d[4]) - At::squares * d[2];
    at_both_signs(P(d[4] - At::high_square * d[2]), P(At::low * d[3] - At::high * d[1]), to[1], to[2]);
  } else {
    at_both_signs(P(d[4] - At::low_square * d[2]), P(At::high * d[3] - At::low * d[1]), to[0], to[1]);
    to[2] = (d[1] + d[5]) - At::squares * d[3];
  }
}
template <bool high, class P>
[[gnu::always_inline]] inline void input_half(const P (&d)[8], P (&to)[4]) {
  using T = std::remove_cvref_t<decltype(d[0][0])>;
  if constexpr (!high) {
    const P even = (d[2] + d[6]) - T(4.25) * d[4], odd = (d[1] + d[5]) - T(4.25) * d[3];
    to[0] = (d[0] - d[6]) + T(5.25) * (d[4] - d[2]);
    at_both_signs(even, odd, to[1], to[2]);
    to[3] = (d[7] - d[1]) + T(5.25) * (d[3] - d[5]);
  } else {
    const P two = (d[6] - T(1.25) * d[4]) + T(0.25) * d[2], odd_two = 2 * d[5] - T(2.5) * d[3] + T(0.5) * d[1];
    const P half = (d[6] - 5 * d[4]) + 4 * d[2], odd_half = T(0.5) * d[5] - T(2.5) * d[3] + 2 * d[1];
    at_both_signs(two, odd_two, to[0], to[1]);
    at_both_signs(half, odd_half, to[2], to[3]);
  }
}

/// Outputs 0, 2 (odd false) or 1, 3 of A^T p.
template <bool odd, class P>
[[gnu::always_inline]] inline void output_half(const P (&p)[6], P (&to)[2]) {
  using At = SixPointsOf<P>;
  if constexpr (!odd) {
    const P low = p[1] + p[2], high = p[3] + p[4];
    to[0] = p[0] + (low + high);
    to[1] = At::low_square * low + At::high_square * high;
  } else {
    const P low = p[1] - p[2], high = p[3] - p[4];
    to[0] = At::low * low + At::high * high;
    to[1] = (At::low * At::low_square * low + p[5]) + At::high * At::high_square * high;
  }
}
template <bool odd, class P>
[[gnu::always_inline]] inline void output_half(const P (&p)[8], P (&to)[2]) {
  using T = std::remove_cvref_t<decltype(p[0][0])>;
  if constexpr (!odd) {
    const P one = p[1] + p[2], two = p[4] + p[5], half = p[6] + p[7];
    to[0] = (p[0] + one) + (two + half);
    to[1] = one + 4 * two + T(0.25) * half;
  } else {
    const P one = p[1] - p[2], two = p[4] - p[5], half = p[6] - p[7];
    to[0] = one + 2 * two + T(0.5) * half;
    to[1] = (one + p[3]) + 8 * two + T(0.125) * half;
  }
}

/// The low or high half of the rows of A y.
template <bool high, class P>
[[gnu::always_inline]] inline void gradient_half(const P (&y)[4], P (&to)[3]) {
  using At = SixPointsOf<P>;
  const auto at = [&y](auto point, auto square, P& positive, P& negative) {
    at_both_signs(P(y[0] + square * y[2]), P(point * y[1] + point * square * y[3]), positive, negative);
  };
  if constexpr (!high) {
    to[0] = y[0];
    at(At::low, At::low_square, to[1], to[2]);
  } else {
    at(At::high, At::high_square, to[0], to[1]);
    to[2] = y[3];
  }
}
template <bool high, class P>
[[gnu::always_inline]] inline void gradient_half(const P (&y)[4], P (&to)[4]) {
  using T = std::remove_cvref_t<decltype(y[0][0])>;
  if constexpr (!high) {
    const P even = y[0] + y[2], odd = y[1] + y[3];
    to[0] = y[0];
    at_both_signs(even, odd, to[1], to[2]);
    to[3] = y[3];
  } else {
    const P two = y[0] + 4 * y[2], odd_two = 2 * y[1] + 8 * y[3];
    const P half = y[0] + T(0.25) * y[2], odd_half = T(0.5) * y[1] + T(0.125) * y[3];
    at_both_signs(two, odd_two, to[0], to[1]);
    at_both_signs(half, odd_half, to[2], to[3]);
  }
}

/// G g.
template <class T, class P>
[[gnu::always_inline]] inline void kernel_points(const P (&g)[3], P (&to)[6]) {
  using At = SixPointsOf<P>;
  const auto at = [&g](auto point, auto factor, P& positive, P& negative) {
    at_both_signs(P(factor * g[0] + factor * point * point * g[2]), P(factor * point * g[1]), positive, negative);
  };
  to[0] = g[0];
  at(At::low, At::at_low, to[1], to[2]);
  at(At::high, At::at_high, to[3], to[4]);
  to[5] = g[2];
}
template <class T, class P>
[[gnu::always_inline]] inline void kernel_points(const P (&g)[5], P (&to)[8]) {
  const P even = g[0] + g[2] + g[4], odd = g[1] + g[3];
  const P two = g[0] + 4 * g[2] + 16 * g[4], odd_two = 2 * g[1] + 8 * g[3];
  const P half = 16 * g[0] + 4 * g[2] + g[4], odd_half = 8 * g[1] + 2 * g[3];
  to[0] = g[0];
  to[1] = (even + odd) * (T(-2) / 9);
  to[2] = (even - odd) * (T(-2) / 9);
  to[3] = g[4];
  to[4] = (two + odd_two) * (T(1) / 90);
  to[5] = (two - odd_two) * (T(1) / 90);
  to[6] = (half + odd_half) * (T(2) / 45);
  to[7] = (half - odd_half) * (T(2) / 45);
}

/// G^T p.
template <class T, class P>
[[gnu::always_inline]] inline void kernel_gradient(const P (&p)[6], P (&to)[3]) {
  using At = SixPointsOf<P>;
  const P low = At::at_low * (p[1] + p[2]), high = At::at_high * (p[3] + p[4]);
  to[0] = p[0] + (low + high);
  to[1] = At::at_low * At::low * (p[1] - p[2]) + At::at_high * At::high * (p[3] - p[4]);
  to[2] = (At::low_square * low + p[5]) + At::high_square * high;
}
template <class T, class P>
[[gnu::always_inline]] inline void kernel_gradient(const P (&p)[8], P (&to)[5]) {
  const P even = (p[1] + p[2]) * (T(-2) / 9), odd = (p[1] - p[2]) * (T(-2) / 9);
  const P two = (p[4] + p[5]) * (T(1) / 90), odd_two = (p[4] - p[5]) * (T(1) / 90);
  const P half = (p[6] + p[7]) * (T(2) / 45), odd_half = (p[6] - p[7]) * (T(2) / 45);
  to[0] = (p[0] + even) + (two + 16 * half);
  to[1] = odd + 2 * odd_two + 8 * odd_half;
  to[2] = even + 4 * two + 4 * half;
  to[3] = odd + 8 * odd_two + 2 * odd_half;
  to[4] = (p[3] + even) + (16 * two + half);
}

/// B^T, for transform_planes: on an axis it maps as many values as there are points.
struct InputMap {
  static constexpr int values(int r) { return winograd_points(r); }
  /// The values [begin, end) that a half reads: the six points' halves leave out a row each, the eight points' high
  /// half both outer rows.
  static constexpr int begin(int, bool high) { return high ? 1 : 0; }
  static constexpr int end(int r, bool high) {
    return winograd_points(r) - ((winograd_points(r) == 6) == high ? 0 : 1);
  }
  template <bool high, class P, int size, int half_size>
  [[gnu::always_inline]] static inline void half(const P (&from)[size], P (&to)[half_size]) {
    input_half<high>(from, to);
  }
};

/// A, for transform_planes: it maps the outputs of a tile, all of them into both halves.
struct GradientMap {
  static constexpr int values(int) { return winograd_outputs; }
  static constexpr int begin(int, bool) { return 0; }
  static constexpr int end(int, bool) { return winograd_outputs; }
  template <bool high, class P, int size, int half_size>
  [[gnu::always_inline]] static inline void half(const P (&from)[size], P (&to)[half_size]) {
    gradient_half<high>(from, to);
  }
};

/// Half of the planes of B^T d B or A y A^T for kernels of r x r: load(i, j) gives the values; plane p of the result
/// goes to to[p * pitch].
template <class Map, int r, bool high, class T, class Load>
inline void transform_planes(const Load& load, T* to, long pitch) {
  constexpr int points = winograd_points(r), half_points = points / 2, values = Map::values(r);
  constexpr int begin = Map::begin(r, high), end = Map::end(r, high);
  Pack<T> middle[half_points][values];
#pragma GCC unroll 8
  for (int j = 0; j < values; ++j) {
    Pack<T> from[values]{}, half[half_points];
#pragma GCC unroll 8
    for (int i = begin; i < end; ++i) from[i] = load(i, j);
    Map::template half<high>(from, half);
#pragma GCC unroll 4
    for (int a = 0; a < half_points; ++a) middle[a][j] = half[a];
  }
#pragma GCC unroll 4
  for (int a = 0; a < half_points; ++a) {
    T* row = to + ((high ? half_points : 0) + a) * points * pitch;
    Pack<T> half[half_points];
    Map::template half<false>(middle[a], half);
#pragma GCC unroll 4
    for (int b = 0; b < half_points; ++b) store(half[b], row + b * pitch);
    Map::template half<true>(middle[a], half);
#pragma GCC unroll 4
    for (int b = 0; b < half_points; ++b) store(half[b], row + (b + half_points) * pitch);
  }
}

/// A^T, for transform_points.
struct OutputMap {
  static constexpr int half_values(int) { return winograd_outputs / 2; }
  template <bool odd, class P, int size, int half_size>
  [[gnu::always_inline]] static inline void half(const P (&from)[size], P (&to)[half_size]) {
    output_half<odd>(from, to);
  }
};

/// Rows 0, 2, ... (odd false) or 1, 3, ... of M p M^T, where M is Map: load(plane) gives the values p; take(i, j, pack)
/// the results.
template <class Map, int r, bool odd, class T, class Load, class Take>
[[gnu::always_inline]] inline void transform_points_half(const Load& load, const Take& take) {
  constexpr int points = winograd_points(r), values = Map::half_values(r);
  constexpr int first = odd ? 1 : 0, end = points == 6 && !odd ? 5 : points;  // what this half reads
  Pack<T> middle[values][points];
#pragma GCC unroll 8
  for (int b = 0; b < points; ++b) {
    Pack<T> p[points]{}, half[values];
#pragma GCC unroll 8
    for (int a = first; a < end; ++a) p[a] = load(a * points + b);
    Map::template half<odd>(p, half);
#pragma GCC unroll 4
    for (int i = 0; i < values; ++i) middle[i][b] = half[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < values; ++i) {
    Pack<T> half[values];
    Map::template half<false>(middle[i], half);
#pragma GCC unroll 4
    for (int j = 0; j < values; ++j) take(2 * i + (odd ? 1 : 0), 2 * j, half[j]);
    Map::template half<true>(middle[i], half);
#pragma GCC unroll 4
    for (int j = 0; j < values; ++j) take(2 * i + (odd ? 1 : 0), 2 * j + 1, half[j]);
  }
}

/// M p M^T.
template <class Map, int r, class T, class Load, class Take>
inline void transform_points(const Load& load, const Take& take) {
  transform_points_half<Map, r, false, T>(load, take);
  transform_points_half<Map, r, true, T>(load, take);
}

/// G g G^T: load(tap) gives the r x r values g.
template <int r, class T, class Load>
inline void transform_kernel(const Load& load, T* to, long pitch) {
  constexpr int points = winograd_points(r);
  Pack<T> middle[points][r];
#pragma GCC unroll 5
  for (int j = 0; j < r; ++j) {
    Pack<T> g[r], at[points];
#pragma GCC unroll 5
    for (int i = 0; i < r; ++i) g[i] = load(i * r + j);
    kernel_points<T>(g, at);
#pragma GCC unroll 8
    for (int a = 0; a < points; ++a) middle[a][j] = at[a];
  }
#pragma GCC unroll 8
  for (int a = 0; a < points; ++a) {
    Pack<T> at[points];
    kernel_points<T>(middle[a], at);
#pragma GCC unroll 8
    for (int b = 0; b < points; ++b) store(at[b], to + (a * points + b) * pitch);
  }
}

/// G^T p G: load(plane) gives the values p; store_tap(tap, pack) takes the r x r results.
template <int r, class T, class Load, class Store>
inline void transform_kernel_gradient(const Load& load, const Store& store_tap) {
  constexpr int points = winograd_points(r);
  Pack<T> middle[r][points];
#pragma GCC unroll 8
  for (int b = 0; b < points; ++b) {
    Pack<T> p[points], taps[r];
#pragma GCC unroll 8
    for (int a = 0; a < points; ++a) p[a] = load(a * points + b);
    kernel_gradient<T>(p, taps);
#pragma GCC unroll 5
    for (int i = 0; i < r; ++i) middle[i][b] = taps[i];
  }
#pragma GCC unroll 5
  for (int i = 0; i < r; ++i) {
    Pack<T> taps[r];
    kernel_gradient<T>(middle[i], taps);
#pragma GCC unroll 5
    for (int j = 0; j < r; ++j) store_tap(i * r + j, taps[j]);
  }
}

}  // namespace halograd::host
