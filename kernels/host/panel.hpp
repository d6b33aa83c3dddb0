#pragma once

#include "kernels/host/microkernel.hpp"

/// Register tiles of plain matrix products, on operands that lie regularly in memory.
namespace halograd::host {

/// Rows of a PanelTile, at least and at most.
constexpr int panel_rows(int packs) {
  return rows_that_fit(packs, 8);
}
constexpr int most_panel_rows(int packs) {
  return rows_that_fit(packs, 12);
}
/// Rows of a PanelTile with which the last of several goes past `rows` by the fewest.
constexpr int fitting_panel_rows(int packs, int rows) {
  int best = panel_rows(packs);
  const auto computed = [rows](int tile) { return (rows + tile - 1) / tile * tile; };
  for (int tile = best + 1; tile <= most_panel_rows(packs); ++tile) {
    if (computed(tile) < computed(best)) best = tile;
  }
  return best;
}

/// c[m][column] (+)= sum over d of left(m, d) * right[d][column], for `rows` rows and `packs` packs of columns.
/// left(m, d) is left[m * left_pitch + d], or left[d * left_pitch + m] in a product with a transposed matrix. All of c
/// is written: rows and columns that are none must be writable, and what is read for them readable.
template <class T>
struct PanelTile {
  int depth;
  const T* left;
  long left_pitch;
  const T* right;
  long right_pitch;
  T* out;
  long out_pitch;
  bool accumulate;  ///< the sum starts at what c holds: cutting the depth in pieces changes no bit
  Prefetch::Pace ahead = Prefetch().over(1);  ///< fetched meanwhile, a step for each value of the depth
};

template <int rows, int V, bool transposed, class T>
void compute_panel(const PanelTile<T>& tile) {
  Pack<T> sum[rows][V] = {};
  if (tile.accumulate) {
#pragma GCC unroll 12
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[m][v] = load<T>(tile.out + m * tile.out_pitch + v * lanes<T>);
    }
  }
  const T* left = tile.left;
  const T* right = tile.right;
  const char* ahead = tile.ahead.at;
  for (int d = 0; d < tile.depth; ++d) {
    __builtin_prefetch(ahead, 0, 2);
    ahead += tile.ahead.step;
    Pack<T> b[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) b[v] = load<T>(right + v * lanes<T>);
#pragma GCC unroll 12
    for (int m = 0; m < rows; ++m) {
      const T a = transposed ? left[m] : left[m * tile.left_pitch];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[m][v] += a * b[v];
    }
    right += tile.right_pitch;
    left += transposed ? tile.left_pitch : 1;
  }
#pragma GCC unroll 12
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store<T>(sum[m][v], tile.out + m * tile.out_pitch + v * lanes<T>);
  }
}

/// compute_panel of that number of rows, or panel_rows(V).
template <int V, bool transposed, class T, int rows = most_panel_rows(V)>
void run_panel(int count, const PanelTile<T>& tile) {
  if constexpr (rows > panel_rows(V)) {
    if (count < rows) return run_panel<V, transposed, T, rows - 1>(count, tile);
  }
  compute_panel<rows, V, transposed>(tile);
}

/// compute_panel over `rows` rows in tiles of `step` (panel_rows(packs) unless transposed; the last may go past them)
/// of at most two packs of columns; fetches a piece of `next` during each tile, and calls between() after it.
template <bool transposed, class T, class Between>
void multiply_panel(int packs, int rows, int step, const PanelTile<T>& first, Prefetch& next, const Between& between) {
  PanelTile<T> tile = first;
  for (int row = 0; row < rows; row += step) {
    tile.left = first.left + (transposed ? row : row * first.left_pitch);
    tile.out = first.out + row * first.out_pitch;
    tile.ahead = next.over(tile.depth);
    if constexpr (transposed) {
      packs == 1 ? run_panel<1, true>(step, tile) : run_panel<2, true>(step, tile);
    } else {
      packs == 1 ? compute_panel<panel_rows(1), 1, false>(tile) : compute_panel<panel_rows(2), 2, false>(tile);
    }
    between();
  }
}

}  // namespace halograd::host
