#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host/prefetch.hpp"
#include "kernels/host/simd.hpp"

/// Matrix products of floats that are rounded to 16-bit integers, with a scale for each row of the left operand and
/// each column of the right one, and summed exactly in 32 bits: AVX512_VNNI does so at twice the speed of multiply-adds
/// of floats. A value is rounded by at most half of what integer_limit of them makes the largest of its row or column.
/// A row or column with a value that is not finite has a scale that is not, and so have its products. Defined on
/// hosts' builds for AVX-512 alone.
namespace halograd::host {

#if defined(HALOGRAD_AVX512) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define HALOGRAD_INTEGER_PANELS
constexpr bool has_integer_panels = true;
#else
constexpr bool has_integer_panels = false;
#endif
/// Whether this CPU multiplies integers faster than floats.
bool multiplies_integers();

/// Values of depth whose products are summed as integers; beyond, the sums go on in floats.
constexpr int integer_depth = 128;
/// The integer that the largest value becomes, such that no sum over `depth` values overflows.
float integer_limit(int depth);

/// Rounds rows of `count` values, whole packs, to rows of integers with a scale each; rows and scales are so far apart.
void round_to_rows(const float* from, long from_pitch, int rows, int count, float limit, std::int16_t* to,
                   long to_pitch, float* scales, long scales_pitch);
/// Rounds a pack of columns, rows `from_pitch` apart, to pairs of integers along the depth, `to_pitch` pairs apart;
/// beside the last row of an odd depth goes a zero. The result may be where the values are. Writes the scales of the
/// pack.
void round_to_columns(const float* from, long from_pitch, int depth, float limit, void* to, long to_pitch,
                      float* scales);

/// out[m][column] (+)= row_scales[m] * column_scales[column] * sum over d of left(m, d) * right(d, column), for
/// integer_rows rows and one or two packs of columns. Depth goes in pairs, whose values lie side by side: left(m, 2 p)
/// is left[m * left_step + p * left_pair], right(2 p, column) is right[p * right_pair + 2 * column].
struct IntegerTile {
  int pairs;
  const std::int16_t* left;
  long left_step, left_pair;
  const std::int16_t* right;
  long right_pair;
  const float* row_scales;
  const float* column_scales;
  float* out;
  long out_pitch;
  bool accumulate;
  Prefetch::Pace ahead = Prefetch().over(1);  ///< fetched meanwhile, a step for each pair
};
constexpr int integer_rows = 8;
void multiply_integers(int packs, const IntegerTile& tile);

/// multiply_integers over `rows` rows (the last tile may go past them) and any number of pairs; fetches a piece of
/// `next` during each tile, and calls between() after it.
template <class Between>
void multiply_integer_panel(int packs, int rows, const IntegerTile& first, Prefetch& next, const Between& between) {
  for (int pair = 0; pair < first.pairs; pair += integer_depth / 2) {
    IntegerTile tile = first;
    tile.pairs = std::min(integer_depth / 2, first.pairs - pair);
    tile.left += pair * tile.left_pair;
    tile.right += pair * tile.right_pair;
    tile.accumulate = first.accumulate || pair > 0;
    for (int row = 0; row < rows; row += integer_rows) {
      tile.ahead = next.over(tile.pairs);
      multiply_integers(packs, tile);
      between();
      tile.left += integer_rows * tile.left_step;
      tile.row_scales += integer_rows;
      tile.out += integer_rows * tile.out_pitch;
    }
  }
}

}  // namespace halograd::host
