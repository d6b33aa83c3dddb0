#pragma once

#include <algorithm>

#include "kernels/host/prefetch.hpp"
#include "kernels/host/target.hpp"

/// Register tiles of the host convolution.
namespace halograd::host {

/// Loops over the accumulators are unrolled in full and never indexed at run time, so that they stay in registers.
/// A tile is a number of rows of V packs and perhaps a half pack: the accumulators, one row of the other operand and
/// one broadcast value fill the registers.
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

  /// Row m starts with the columns at from + m * pitch; pitch 0: all rows alike.
  inline void start(const T* from, long pitch) {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) full[m][v] = load<T>(from + m * pitch + v * lanes<T>);
      if constexpr (half) last[m] = load_as<HalfPack<T>>(from + m * pitch + V * lanes<T>);
    }
  }
  inline void start_at_zero() {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) full[m][v] = Pack<T>{};
      if constexpr (half) last[m] = HalfPack<T>{};
    }
  }

  /// Adds left(m) times the columns at `from` to every row m.
  template <class Stored, class Left>
  inline void add(const Stored* from, const Left& left) {
    Pack<T> right[std::max(V, 1)];
    [[maybe_unused]] HalfPack<T> right_last;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load(from + v * lanes<T>);
    if constexpr (half) right_last = load_as<HalfPack<T>>(from + V * lanes<T>);
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
      const Pack<T> value = broadcast(left(m));
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) full[m][v] += value * right[v];
      if constexpr (half) last[m] += low_half<T>(value) * right_last;
    }
  }

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

/// Rows of a GatherTile: each takes a pointer, so that more would not fit the general registers.
constexpr int gather_rows(TileWidth width) {
  return rows_that_fit(width.registers(), 8);
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
  long out_ahead;          ///< from there to what is fetched for writing
  int valid_rows;
  int columns;           ///< valid ones
  Prefetch::Pace ahead;  ///< fetched meanwhile, a step for each value of the depth
};

template <int V, bool half, class T>
void compute_tile(const GatherTile<T>& tile) {
  constexpr int rows = gather_rows({V, half});
  TileSums<T, rows, V, half> sum;
  sum.start(tile.bias, 0);
  if (tile.slots > 0) {
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
      if (m >= tile.valid_rows) break;
      tile.target.prefetch(tile.out_offset[m] + tile.out_ahead, columns_of<T>({V, half}));
    }
  }
  const long pitch = tile.b_pitch;
  const char* ahead = tile.ahead.at;
  const long ahead_step = tile.ahead.step;
  for (int t = 0; t < tile.slots; ++t) {
    const int slot = tile.slot[t];
    const T* row[rows];
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) row[m] = tile.rows[slot * table_pixels + m];
    const T* b = tile.b + tile.b_row[slot] * pitch;
    for (int d = 0; d < tile.depth; ++d, b += pitch, ahead += ahead_step) {
      __builtin_prefetch(ahead, 0, 2);
      sum.add(b, [&row, d](int m) { return row[m][d]; });
    }
  }
  const TileSums<T, rows, V, half> done = sum;  // what lambdas refer to is in memory: not the sums of the loop above
  if (tile.columns >= columns_of<T>({V, half})) {
    tile.target.store_whole([&](const auto& store_pack) {
      done.write(tile.valid_rows, [&](auto pack, int m, int column) { store_pack(pack, tile.out_offset[m] + column); });
    });
    return;
  }
  done.write(tile.valid_rows, [&tile](auto pack, int m, int column) {
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
  Prefetch::Pace ahead_left, ahead_right;  ///< fetched meanwhile, a step for each pixel
};

template <int rows, int V, bool half, class T>
void compute_tile(const OuterTile<T>& tile) {
  TileSums<T, rows, V, half> sum;
  sum.start_at_zero();
  for (int m = 0; m < rows; ++m) {  // what the stores would wait for
    for (int v = 0; v < V + (half ? 1 : 0); ++v) __builtin_prefetch(tile.out + m * tile.out_pitch + v * lanes<T>, 1, 3);
  }
  const T* b = tile.right;
  const char *ahead_left = tile.ahead_left.at, *ahead_right = tile.ahead_right.at;
  for (int p = 0; p < tile.pixels; ++p, b += tile.right_pitch) {
    __builtin_prefetch(ahead_left, 0, 2);
    __builtin_prefetch(ahead_right, 0, 2);
    ahead_left += tile.ahead_left.step;
    ahead_right += tile.ahead_right.step;
    const T* const a = tile.left[p] + tile.left_offset;
    sum.add(b, [a](int m) { return a[m]; });
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
template <int V, bool half, class T, int rows = outer_rows(TileWidth{V, half})>
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
