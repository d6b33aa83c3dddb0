#pragma once

#include <algorithm>
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

template <class T, int bytes>
struct Simd;
template <int bytes>
struct Simd<float, bytes> {
  typedef float Pack __attribute__((vector_size(bytes)));
};
template <int bytes>
struct Simd<double, bytes> {
  typedef double Pack __attribute__((vector_size(bytes)));
};
template <class T>
using Pack = typename Simd<T, simd_bytes>::Pack;
template <class T>
constexpr int lanes = simd_bytes / static_cast<int>(sizeof(T));

/// Half a pack, for the last few columns: half the time where a pack is two operations of the hardware (Zen 4).
constexpr bool has_half_packs = simd_bytes == 64;
template <class T>
using HalfPack = typename Simd<T, has_half_packs ? simd_bytes / 2 : simd_bytes>::Pack;
template <class T>
constexpr int half_lanes = lanes<T> / (has_half_packs ? 2 : 1);

template <class P, class T>
inline P load_as(const T* from) {
  P pack;
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}
template <class T>
inline Pack<T> load(const T* from) {
  return load_as<Pack<T>>(from);
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
inline __m512 widen(__m256 half) {
  return _mm512_castps256_ps512(half);
}
inline __m512d widen(__m256d half) {
  return _mm512_castpd256_pd512(half);
}
#endif

/// Loads the first `count` lanes of a pack or half pack, the others zero; `count` may be more than there are, or
/// negative.
template <class P, class T>
inline P load_first(const T* from, int count) {
  constexpr int all = static_cast<int>(sizeof(P) / sizeof(T));
  if (count >= all) return load_as<P>(from);
  P pack{};
  if (count > 0) {
#if defined(__AVX512F__)
    const auto wide = masked_load((1U << count) - 1U, from);
    std::memcpy(&pack, &wide, sizeof(pack));
#else
    std::memcpy(&pack, from, sizeof(T) * static_cast<std::size_t>(count));
#endif
  }
  return pack;
}

/// Stores the first `count` lanes.
template <class P, class T>
inline void store_first(const P& pack, T* to, int count) {
  constexpr int all = static_cast<int>(sizeof(P) / sizeof(T));
  if (count >= all) {
    std::memcpy(to, &pack, sizeof(pack));
  } else if (count > 0) {
#if defined(__AVX512F__)
    if constexpr (sizeof(P) == 64) {
      masked_store((1U << count) - 1U, pack, to);
    } else {
      masked_store((1U << count) - 1U, widen(pack), to);
    }
#else
    std::memcpy(to, &pack, sizeof(T) * static_cast<std::size_t>(count));
#endif
  }
}

template <class T>
inline Pack<T> load_part(const T* from, int count) {
  return load_first<Pack<T>>(from, count);
}
template <class T>
inline void store_part(const Pack<T>& pack, T* to, int count) {
  store_first(pack, to, count);
}

/// Loops over the accumulators are unrolled in full and never indexed at run time, so that they stay in registers.
/// A tile is so many rows of V packs and perhaps a half pack: the accumulators, one row of the other operand and one
/// broadcast value fill the registers.
constexpr int largest_tile_packs = simd_registers >= 32 ? 4 : 2;
constexpr int rows_that_fit(int packs, int most) {
  const int rows = (simd_registers - packs - 1) / packs;
  return rows < most ? rows : most;
}

/// The columns of a tile: V packs, then a half pack or not.
struct TileWidth {
  int packs;
  bool half;
  [[nodiscard]] constexpr int registers() const { return packs + (half ? 1 : 0); }
};

template <class T>
constexpr int columns_of(TileWidth width) {
  return width.packs * lanes<T> + (width.half ? half_lanes<T> : 0);
}

/// The sums of a tile, row by row.
template <class T, int rows, int V, bool half>
struct TileSums {
  Pack<T> full[rows][std::max(V, 1)];
  HalfPack<T> last[rows];

  /// Calls write(pack, row, column) for every pack of the first `valid` rows, half packs included.
  template <class Write>
  inline void write(int valid, const Write& write_pack) const {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
      if (m >= valid) break;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) write_pack(full[m][v], m, v * lanes<T>);
      if constexpr (half) write_pack(last[m], m, V * lanes<T>);
    }
  }
};

/// Where the sums of a tile go, and what follows them.
template <class T>
struct Target {
  T* out;
  const T* relu_output;  ///< the result is zero where this, of out's layout, is not positive; or null
  bool accumulate;       ///< add to what is there
  bool relu;             ///< the result is zero where negative

  /// Stores the first `count` lanes of sums at out + at.
  template <class P>
  inline void store(P sums, long at, int count) const {
    if (accumulate) sums += load_first<P>(out + at, count);
    if (relu) sums = sums < P{} ? P{} : sums;
    if (relu_output != nullptr) sums = load_first<P>(relu_output + at, count) > P{} ? sums : P{};
    store_first<P>(sums, out + at, count);
  }
  /// The same from column `column` on.
  [[nodiscard]] Target from(long column) const {
    return {out + column, relu_output == nullptr ? nullptr : relu_output + column, accumulate, relu};
  }
};

/// Rows of a GatherTile: each takes a pointer, so that more would not fit the general registers.
constexpr int tile_rows(int packs) {
  return rows_that_fit(packs, 8);
}
constexpr int gather_rows(TileWidth width) {
  return tile_rows(width.registers());
}
/// Pixels that a table of row pointers holds for a GatherTile: a multiple of gather_rows for every width.
constexpr int table_pixels = 48;
static_assert(table_pixels % gather_rows({1, false}) == 0 && table_pixels % gather_rows({2, false}) == 0 &&
              table_pixels % gather_rows({largest_tile_packs, false}) == 0 &&
              (largest_tile_packs < 3 || table_pixels % gather_rows({3, false}) == 0));

/// One tile of y[m][column] (+)= bias[column] + sum over slots t and depth d of rows[t][m][d] * b[t][d][column].
template <class T>
struct GatherTile {
  int slots;             ///< that reach these rows
  int depth;             ///< values read at a slot
  const int* slot;       ///< (slots): its line in the table
  const long* b_row;     ///< (lines of the table): the row of b where its weights start
  const T* const* rows;  ///< (lines, table_pixels): where row m reads; a row of zeros outside the image
  const T* b;            ///< (depth of all taps, b_pitch), readable for all columns of the tile
  long b_pitch;
  const T* bias;  ///< readable for all columns of the tile
  Target<T> target;
  const long* out_offset;  ///< (valid_rows): where row m is in the target
  int valid_rows;
  int columns;  ///< valid ones
};

template <int V, bool half, class T>
void compute_tile(const GatherTile<T>& tile) {
  constexpr int rows = gather_rows({V, half});
  TileSums<T, rows, V, half> sum;
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum.full[m][v] = load<T>(tile.bias + v * lanes<T>);
    if constexpr (half) sum.last[m] = load_as<HalfPack<T>>(tile.bias + V * lanes<T>);
  }
  const long pitch = tile.b_pitch;
  for (int t = 0; t < tile.slots; ++t) {
    const int slot = tile.slot[t];
    const T* row[rows];
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) row[m] = tile.rows[slot * table_pixels + m];
    const T* b = tile.b + tile.b_row[slot] * pitch;
    for (int d = 0; d < tile.depth; ++d, b += pitch) {
      Pack<T> right[std::max(V, 1)];
      [[maybe_unused]] HalfPack<T> last;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) right[v] = load<T>(b + v * lanes<T>);
      if constexpr (half) last = load_as<HalfPack<T>>(b + V * lanes<T>);
#pragma GCC unroll 8
      for (int m = 0; m < rows; ++m) {
        const T left = row[m][d];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum.full[m][v] += left * right[v];
        if constexpr (half) sum.last[m] += left * last;
      }
    }
  }
  sum.write(tile.valid_rows, [&tile](auto pack, int m, int column) {
    tile.target.store(pack, tile.out_offset[m] + column, tile.columns - column);
  });
}

/// Most rows of an OuterTile.
constexpr int outer_rows(TileWidth width) {
  return rows_that_fit(width.registers(), 16);
}

/// One tile of w[m][column] (+)= sum over pixels p of left[p][m] * right[p][column].
template <class T>
struct OuterTile {
  int pixels;
  const T* const* left;  ///< (pixels): the first row's value
  long left_offset;      ///< of the first row's value from there
  const T* right;        ///< (pixels, right_pitch), readable for all columns of the tile
  long right_pitch;
  T* out;  ///< (rows, out_pitch)
  long out_pitch;
  int columns;  ///< valid ones
  bool accumulate;
};

template <int rows, int V, bool half, class T>
void compute_tile(const OuterTile<T>& tile) {
  TileSums<T, rows, V, half> sum;
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum.full[m][v] = Pack<T>{};
    if constexpr (half) sum.last[m] = HalfPack<T>{};
  }
  const T* b = tile.right;
  for (int p = 0; p < tile.pixels; ++p, b += tile.right_pitch) {
    const T* const a = tile.left[p] + tile.left_offset;
    Pack<T> right[std::max(V, 1)];
    [[maybe_unused]] HalfPack<T> last;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load<T>(b + v * lanes<T>);
    if constexpr (half) last = load_as<HalfPack<T>>(b + V * lanes<T>);
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
      const T left = a[m];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum.full[m][v] += left * right[v];
      if constexpr (half) sum.last[m] += left * last;
    }
  }
  sum.write(rows, [&tile](auto pack, int m, int column) {
    using P = decltype(pack);
    const int count = tile.columns - column;
    T* const to = tile.out + m * tile.out_pitch + column;
    store_first<P>(tile.accumulate ? pack + load_first<P>(to, count) : pack, to, count);
  });
}

/// compute_tile of that width and, for an OuterTile, number of rows.
template <int V, bool half, class T>
void run_rows(int, const GatherTile<T>& tile) {
  compute_tile<V, half>(tile);
}
template <int V, bool half, class T, int rows = outer_rows({V, half})>
void run_rows(int count, const OuterTile<T>& tile) {
  if (count == rows) return compute_tile<rows, V, half>(tile);
  if constexpr (rows > 1) run_rows<V, half, T, rows - 1>(count, tile);
}
template <class Tile>
void run_tile(TileWidth width, const Tile& tile, int rows = 0) {
  if (!width.half) {
    if (width.packs == 1) return run_rows<1, false>(rows, tile);
    if (width.packs == 2) return run_rows<2, false>(rows, tile);
    if constexpr (largest_tile_packs > 2) {
      return width.packs == 3 ? run_rows<3, false>(rows, tile) : run_rows<4, false>(rows, tile);
    }
  }
  if constexpr (has_half_packs) {
    if (width.packs == 0) return run_rows<0, true>(rows, tile);
    if (width.packs == 1) return run_rows<1, true>(rows, tile);
    return width.packs == 2 ? run_rows<2, true>(rows, tile) : run_rows<3, true>(rows, tile);
  }
}

}  // namespace halograd::host

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif
