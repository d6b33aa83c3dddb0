#pragma once

#include "kernels/host/microkernel.hpp"

#if defined(__CUDACC__)  // as in microkernel.hpp
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

/// The linear maps of Winograd's minimal filtering, y = A^T [(G g G^T) . (B^T d B)] A (A. Lavin and S. Gray, "Fast
/// Algorithms for Convolutional Neural Networks", 2016), with the six points 0, 1, -1, 2, -2 and infinity. These serve
/// every output tile of m x m under a kernel of r x r with m + r - 1 = 6: F(4x4, 3x3) and F(2x2, 5x5) share B, and A
/// and G of the one are rows of the other's. Lanes are channels, so a transform is additions of whole packs. Each map
/// is written for one axis and applied to the two axes in turn; the first axis is done in two halves, whose
/// intermediate values then fit in the registers.
namespace halograd::host {

constexpr int winograd_points = 6;                                  ///< on an axis
constexpr int winograd_planes = winograd_points * winograd_points;  ///< matrix products a tile takes part in
/// The plane of points (1, 1): there A and A^T are ones, so what is added to it is added to every output of the tile,
/// and what A y A^T puts into it is the sum of the tile's y.
constexpr int winograd_sum_plane = winograd_points + 1;

/// Rows 0 to 2 (low) or 3 to 5 (high) of B^T d.
template <bool high, class P>
[[gnu::always_inline]] inline void input_half(const P (&d)[6], P (&to)[3]) {
  if constexpr (!high) {
    const P even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1];
    to[0] = (d[4] - d[2]) + 4 * (d[0] - d[2]);
    to[1] = even + odd;
    to[2] = even - odd;
  } else {
    const P even = d[4] - d[2], odd = d[3] - d[1];
    to[0] = even + 2 * odd;
    to[1] = even - 2 * odd;
    to[2] = (d[5] - d[3]) - 4 * odd;
  }
}

/// Outputs 0, 2 (odd false) or 1, 3 of A^T p; with two outputs 0 or 1.
template <int m, bool odd, class P>
[[gnu::always_inline]] inline void output_half(const P (&p)[6], P (&to)[m / 2]) {
  if constexpr (!odd) {
    const P one = p[1] + p[2], two = p[3] + p[4];
    to[0] = p[0] + (one + two);
    if constexpr (m == 4) to[1] = one + 4 * two;
  } else {
    const P one = p[1] - p[2], two = p[3] - p[4];
    to[0] = one + 2 * two;
    if constexpr (m == 4) to[1] = (one + 8 * two) + p[5];
    if constexpr (m == 2) to[0] += p[5];
  }
}

/// Rows 0 to 2 (low) or 3 to 5 (high) of A y.
template <int m, bool high, class P>
[[gnu::always_inline]] inline void gradient_half(const P (&y)[m], P (&to)[3]) {
  P even = y[0], odd = y[1];
  if constexpr (m == 4 && !high) {
    even += y[2];
    odd += y[3];
  }
  if constexpr (m == 4 && high) {
    even += 4 * y[2];
    odd += 4 * y[3];
  }
  if constexpr (!high) {
    to[0] = y[0];
    to[1] = even + odd;
    to[2] = even - odd;
  } else {
    to[0] = even + 2 * odd;
    to[1] = even - 2 * odd;
    to[2] = y[m - 1];
  }
}

/// G g.
template <int r, class T, class P>
[[gnu::always_inline]] inline void kernel_points(const P (&g)[r], P (&to)[6]) {
  P even = g[0] + g[2], odd = g[1], even_two = g[0] + 4 * g[2], odd_two = 2 * g[1];
  if constexpr (r == 5) {
    even += g[4];
    odd += g[3];
    even_two += 16 * g[4];
    odd_two += 8 * g[3];
  }
  to[0] = g[0] * (T(1) / 4);
  to[1] = (even + odd) * (T(-1) / 6);
  to[2] = (even - odd) * (T(-1) / 6);
  to[3] = (even_two + odd_two) * (T(1) / 24);
  to[4] = (even_two - odd_two) * (T(1) / 24);
  to[5] = g[r - 1];
}

/// G^T p.
template <int r, class T, class P>
[[gnu::always_inline]] inline void kernel_gradient(const P (&p)[6], P (&to)[r]) {
  const P even = (p[1] + p[2]) * (T(-1) / 6), odd = (p[1] - p[2]) * (T(-1) / 6);
  const P even_two = (p[3] + p[4]) * (T(1) / 24), odd_two = (p[3] - p[4]) * (T(1) / 24);
  to[0] = p[0] * (T(1) / 4) + (even + even_two);
  to[1] = odd + 2 * odd_two;
  to[2] = even + 4 * even_two;
  if constexpr (r == 5) {
    to[3] = odd + 8 * odd_two;
    to[4] = even + 16 * even_two;
  }
  to[r - 1] += p[5];
}

/// Half of the planes of B^T d B: load(i, j) gives the 6 x 6 values d; plane p of the result goes to to[p * pitch].
template <bool high, class T, class Load>
inline void transform_input_half(const Load& load, T* to, long pitch) {
  Pack<T> middle[3][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    Pack<T> d[6]{}, half[3];
#pragma GCC unroll 6
    for (int i = high ? 1 : 0; i < (high ? 6 : 5); ++i) d[i] = load(i, j);
    input_half<high>(d, half);
#pragma GCC unroll 3
    for (int a = 0; a < 3; ++a) middle[a][j] = half[a];
  }
#pragma GCC unroll 3
  for (int a = 0; a < 3; ++a) {
    T* row = to + ((high ? 3 : 0) + a) * winograd_points * pitch;
    Pack<T> half[3];
    input_half<false>(middle[a], half);
#pragma GCC unroll 3
    for (int b = 0; b < 3; ++b) store<T>(half[b], row + b * pitch);
    input_half<true>(middle[a], half);
#pragma GCC unroll 3
    for (int b = 0; b < 3; ++b) store<T>(half[b], row + (b + 3) * pitch);
  }
}

template <class T, class Load>
inline void transform_input(const Load& load, T* to, long pitch) {
  transform_input_half<false>(load, to, pitch);
  transform_input_half<true>(load, to, pitch);
}

/// Half of the planes of A y A^T: load(i, j) gives the m x m values y.
template <int m, bool high, class T, class Load>
inline void transform_gradient_half(const Load& load, T* to, long pitch) {
  Pack<T> middle[3][m];
#pragma GCC unroll 4
  for (int j = 0; j < m; ++j) {
    Pack<T> y[m], half[3];
#pragma GCC unroll 4
    for (int i = 0; i < m; ++i) y[i] = load(i, j);
    gradient_half<m, high>(y, half);
#pragma GCC unroll 3
    for (int a = 0; a < 3; ++a) middle[a][j] = half[a];
  }
#pragma GCC unroll 3
  for (int a = 0; a < 3; ++a) {
    T* row = to + ((high ? 3 : 0) + a) * winograd_points * pitch;
    Pack<T> half[3];
    gradient_half<m, false>(middle[a], half);
#pragma GCC unroll 3
    for (int b = 0; b < 3; ++b) store<T>(half[b], row + b * pitch);
    gradient_half<m, true>(middle[a], half);
#pragma GCC unroll 3
    for (int b = 0; b < 3; ++b) store<T>(half[b], row + (b + 3) * pitch);
  }
}

/// A^T p A: load(plane) gives the 6 x 6 values p; store_output(i, j, pack) takes the m x m outputs.
template <int m, bool odd, class T, class Load, class Store>
[[gnu::always_inline]] inline void transform_output_half(const Load& load, const Store& store_output) {
  Pack<T> middle[m / 2][6];
#pragma GCC unroll 6
  for (int b = 0; b < 6; ++b) {
    Pack<T> p[6]{}, half[m / 2];
#pragma GCC unroll 6
    for (int a = odd ? 1 : 0; a < (odd ? 6 : 5); ++a) p[a] = load(a * winograd_points + b);
    output_half<m, odd>(p, half);
#pragma GCC unroll 2
    for (int i = 0; i < m / 2; ++i) middle[i][b] = half[i];
  }
#pragma GCC unroll 2
  for (int i = 0; i < m / 2; ++i) {
    Pack<T> half[m / 2];
    output_half<m, false>(middle[i], half);
#pragma GCC unroll 2
    for (int j = 0; j < m / 2; ++j) store_output(2 * i + (odd ? 1 : 0), 2 * j, half[j]);
    output_half<m, true>(middle[i], half);
#pragma GCC unroll 2
    for (int j = 0; j < m / 2; ++j) store_output(2 * i + (odd ? 1 : 0), 2 * j + 1, half[j]);
  }
}

template <int m, class T, class Load, class Store>
inline void transform_output(const Load& load, const Store& store_output) {
  transform_output_half<m, false, T>(load, store_output);
  transform_output_half<m, true, T>(load, store_output);
}

/// G g G^T: load(tap) gives the r x r values g.
template <int r, class T, class Load>
inline void transform_kernel(const Load& load, T* to, long pitch) {
  Pack<T> middle[6][r];
#pragma GCC unroll 5
  for (int j = 0; j < r; ++j) {
    Pack<T> g[r], points[6];
#pragma GCC unroll 5
    for (int i = 0; i < r; ++i) g[i] = load(i * r + j);
    kernel_points<r, T>(g, points);
#pragma GCC unroll 6
    for (int a = 0; a < 6; ++a) middle[a][j] = points[a];
  }
#pragma GCC unroll 6
  for (int a = 0; a < 6; ++a) {
    Pack<T> points[6];
    kernel_points<r, T>(middle[a], points);
#pragma GCC unroll 6
    for (int b = 0; b < 6; ++b) store<T>(points[b], to + (a * winograd_points + b) * pitch);
  }
}

/// G^T p G: load(plane) gives the 6 x 6 values p; store_tap(tap, pack) takes the r x r results.
template <int r, class T, class Load, class Store>
inline void transform_kernel_gradient(const Load& load, const Store& store_tap) {
  Pack<T> middle[r][6];
#pragma GCC unroll 6
  for (int b = 0; b < 6; ++b) {
    Pack<T> p[6], taps[r];
#pragma GCC unroll 6
    for (int a = 0; a < 6; ++a) p[a] = load(a * winograd_points + b);
    kernel_gradient<r, T>(p, taps);
#pragma GCC unroll 5
    for (int i = 0; i < r; ++i) middle[i][b] = taps[i];
  }
#pragma GCC unroll 5
  for (int i = 0; i < r; ++i) {
    Pack<T> taps[r];
    kernel_gradient<r, T>(middle[i], taps);
#pragma GCC unroll 5
    for (int j = 0; j < r; ++j) store_tap(i * r + j, taps[j]);
  }
}

}  // namespace halograd::host

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif
