#pragma once

#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__CUDACC__)  // nvcc knows no "GCC unroll", but leaves it to the host compiler, which does
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

/// Register tiles of the host convolution: fixed-size vectors of the compiler, so that one source serves AVX2, AVX-512,
/// NEON and plain SSE; the width follows the instruction set that the build chose.
namespace halograd::host {

#if defined(__AVX512F__)
constexpr int simd_bytes = 64;
constexpr int simd_registers = 32;
#elif defined(__AVX__)
constexpr int simd_bytes = 32;
constexpr int simd_registers = 16;
#elif defined(__ARM_NEON)
constexpr int simd_bytes = 16;
constexpr int simd_registers = 32;
#else
constexpr int simd_bytes = 16;
constexpr int simd_registers = 16;
#endif

template <class T>
struct Simd;
template <>
struct Simd<float> {
  typedef float Pack __attribute__((vector_size(simd_bytes)));
};
template <>
struct Simd<double> {
  typedef double Pack __attribute__((vector_size(simd_bytes)));
};
template <class T>
using Pack = typename Simd<T>::Pack;
template <class T>
constexpr int lanes = simd_bytes / static_cast<int>(sizeof(T));

template <class T>
inline Pack<T> load(const T* from) {
  Pack<T> pack;
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}

template <class T>
inline void store(const Pack<T>& pack, T* to) {
  std::memcpy(to, &pack, sizeof(pack));
}

#if defined(__AVX512F__)
// A copy of a length known at run time would cost more than the products of a short row: use the mask registers.
inline __m512 masked_load(unsigned mask, const float* from) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
}
inline __m512d masked_load(unsigned mask, const double* from) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
}
inline void masked_store(unsigned mask, __m512 pack, float* to) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), pack);
}
inline void masked_store(unsigned mask, __m512d pack, double* to) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), pack);
}
#endif

/// Loads the first `count` lanes, the others zero; `count` may be more than there are, or negative.
template <class T>
inline Pack<T> load_part(const T* from, int count) {
  if (count >= lanes<T>) return load<T>(from);
  Pack<T> pack{};
  if (count > 0) {
#if defined(__AVX512F__)
    pack = (Pack<T>)masked_load((1U << count) - 1U, from);
#else
    std::memcpy(&pack, from, sizeof(T) * static_cast<std::size_t>(count));
#endif
  }
  return pack;
}

/// Stores the first `count` lanes.
template <class T>
inline void store_part(const Pack<T>& pack, T* to, int count) {
  if (count >= lanes<T>) {
    store<T>(pack, to);
  } else if (count > 0) {
#if defined(__AVX512F__)
    masked_store((1U << count) - 1U, pack, to);
#else
    std::memcpy(to, &pack, sizeof(T) * static_cast<std::size_t>(count));
#endif
  }
}

/// Loops over the accumulators are unrolled in full and never indexed at run time, so that they stay in registers.
/// A tile is tile_rows(V) rows of V packs: the accumulators, V packs of the other operand and one broadcast value fill
/// the registers.
constexpr int largest_tile_packs = simd_registers >= 32 ? 4 : 2;
constexpr int tile_rows(int packs) {
  const int rows = (simd_registers - packs - 1) / packs;
  return rows < 8 ? rows : 8;
}
/// Pixels that a table of row pointers holds for a GatherTile: a multiple of tile_rows for every number of packs.
constexpr int table_pixels = 48;
static_assert(table_pixels % tile_rows(1) == 0 && table_pixels % tile_rows(2) == 0 &&
              table_pixels % tile_rows(largest_tile_packs) == 0 &&
              (largest_tile_packs < 3 || table_pixels % tile_rows(3) == 0));

/// One tile of y[m][column] (+)= bias[column] + sum over slots t and depth d of rows[t][m][d] * b[t][d][column], and
/// what follows the sum.
template <class T>
struct GatherTile {
  int slots;             ///< that reach these rows
  int depth;             ///< values read at a slot
  const int* slot;       ///< (slots): its line in the table
  const long* b_offset;  ///< (lines of the table): where its packed weights start, in values a column
  const T* const* rows;  ///< (lines, table_pixels): where row m reads; a row of zeros outside the image
  const T* b;            ///< (depth of all taps, packs * lanes): packed, zero-padded
  const T* bias;         ///< (packs * lanes)
  T* out;
  const T* relu_output;    ///< zero where this, at the same offset, is not positive; or null
  const long* out_offset;  ///< (valid_rows): where row m is in both
  int valid_rows;
  int columns;  ///< valid ones of packs * lanes
  bool accumulate;
  bool relu;  ///< zero where negative
};

template <int V, class T>
void compute_tile(const GatherTile<T>& tile) {
  constexpr int rows = tile_rows(V);
  constexpr int width = V * lanes<T>;
  Pack<T> sum[rows][V];
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[m][v] = load<T>(tile.bias + v * lanes<T>);
  }
  for (int t = 0; t < tile.slots; ++t) {
    const int slot = tile.slot[t];
    const T* row[rows];
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) row[m] = tile.rows[slot * table_pixels + m];
    const T* b = tile.b + tile.b_offset[slot] * width;
    for (int d = 0; d < tile.depth; ++d, b += width) {
      Pack<T> right[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) right[v] = load<T>(b + v * lanes<T>);
#pragma GCC unroll 8
      for (int m = 0; m < rows; ++m) {
        const T left = row[m][d];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[m][v] += left * right[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) {
    if (m >= tile.valid_rows) break;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const int count = tile.columns - v * lanes<T>;
      const long at = tile.out_offset[m] + v * lanes<T>;
      if (tile.accumulate) sum[m][v] += load_part<T>(tile.out + at, count);
      if (tile.relu) sum[m][v] = sum[m][v] < Pack<T>{} ? Pack<T>{} : sum[m][v];
      if (tile.relu_output != nullptr) {
        sum[m][v] = load_part<T>(tile.relu_output + at, count) > Pack<T>{} ? sum[m][v] : Pack<T>{};
      }
      store_part<T>(sum[m][v], tile.out + at, count);
    }
  }
}

/// One tile of w[m][column] (+)= sum over pixels p of rows[m][p][offset[m]] * right[p][column].
template <class T>
struct OuterTile {
  int pixels;
  const T* const* const* rows;  ///< (M): the table of pixel pointers that row m reads through
  const int* offset;            ///< (M): which value there
  const T* right;               ///< (pixels, right_stride), readable for packs * lanes values a pixel
  long right_stride;
  T* out;  ///< (valid_rows, out_stride)
  long out_stride;
  int valid_rows;
  int columns;
  bool accumulate;
};

template <int V, class T>
void compute_tile(const OuterTile<T>& tile) {
  constexpr int rows = tile_rows(V);
  Pack<T> sum[rows][V] = {};
  const T* const* row[rows];
  long offset[rows];
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) {
    row[m] = tile.rows[m];
    offset[m] = tile.offset[m];
  }
  const T* b = tile.right;
  for (int p = 0; p < tile.pixels; ++p, b += tile.right_stride) {
    Pack<T> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load<T>(b + v * lanes<T>);
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
      const T left = row[m][p][offset[m]];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[m][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) {
    if (m >= tile.valid_rows) break;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const int count = tile.columns - v * lanes<T>;
      T* to = tile.out + m * tile.out_stride + v * lanes<T>;
      store_part<T>(tile.accumulate ? sum[m][v] + load_part<T>(to, count) : sum[m][v], to, count);
    }
  }
}

}  // namespace halograd::host

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif
