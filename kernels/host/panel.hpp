#pragma once

#include "kernels/host/microkernel.hpp"

#if defined(__CUDACC__)  // as in microkernel.hpp
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

/// Register tiles of plain matrix products, on operands that lie regularly in memory.
namespace halograd::host {

/// Rows of a PanelTile.
constexpr int panel_rows(int packs) {
  return rows_that_fit(packs, 8);
}

/// c[m][column] (+)= sum over d of left(m, d) * right[d][column], for panel_rows(packs) rows and `packs` packs of
/// columns. left(m, d) is left[m * left_pitch + d], or left[d * left_pitch + m] in a product with a transposed matrix.
/// All of c is written: rows and columns that are none must be writable, and what is read for them readable.
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
};

template <int V, bool transposed, class T>
void compute_panel(const PanelTile<T>& tile) {
  constexpr int rows = panel_rows(V);
  Pack<T> sum[rows][V] = {};
  if (tile.accumulate) {
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[m][v] = load<T>(tile.out + m * tile.out_pitch + v * lanes<T>);
    }
  }
  const T* left = tile.left;
  const T* right = tile.right;
  for (int d = 0; d < tile.depth; ++d) {
    Pack<T> b[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) b[v] = load<T>(right + v * lanes<T>);
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
      const T a = transposed ? left[m] : left[m * tile.left_pitch];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[m][v] += a * b[v];
    }
    right += tile.right_pitch;
    left += transposed ? tile.left_pitch : 1;
  }
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store<T>(sum[m][v], tile.out + m * tile.out_pitch + v * lanes<T>);
  }
}

/// compute_panel over `rows` rows (the last tile may go past them) of at most two packs of columns; calls between()
/// after each tile.
template <bool transposed, class T, class Between>
void multiply_panel(int packs, int rows, const PanelTile<T>& first, const Between& between) {
  PanelTile<T> tile = first;
  const int step = panel_rows(packs);
  for (int row = 0; row < rows; row += step) {
    tile.left = first.left + (transposed ? row : row * first.left_pitch);
    tile.out = first.out + row * first.out_pitch;
    if (packs == 1) {
      compute_panel<1, transposed>(tile);
    } else {
      compute_panel<2, transposed>(tile);
    }
    between();
  }
}

}  // namespace halograd::host

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif
