#include "kernels/host/integer_panel.hpp"

#if defined(HALOGRAD_INTEGER_PANELS)

#include <bit>
#include <cmath>
#include <limits>

namespace halograd::host {
namespace {

/// Lanes of 32 bits: g++ copies an __m512i, whose lanes have 64, around each dot product.
typedef int Sums __attribute__((vector_size(64)));

/// The bits of absolute values: as integers they are in the same order, and what is no number comes last.
inline __m512i magnitudes(const float* from) {
  return _mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi32(0x7fffffff));
}
inline __m512i larger(__m512i a, __m512i b) {
  return _mm512_maskz_max_epu32(0xffff, a, b);
}
inline float largest_lane(__m512i magnitudes) {
  __m256i halves[2];
  std::memcpy(halves, &magnitudes, sizeof(magnitudes));
  const __m256i eight = _mm256_max_epu32(halves[0], halves[1]);
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
  return std::bit_cast<float>(_mm_cvtsi128_si32(four));
}
/// Where the product is not finite (of zeros alone the factor is not), the lower 16 bits are zero.
inline __m512i rounded(const float* from, __m512 factor) {
  return _mm512_maskz_cvtps_epi32(0xffff, _mm512_mul_ps(_mm512_loadu_ps(from), factor));
}

template <int V>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void multiply(const IntegerTile& tile) {
  constexpr int pack_values = 2 * lanes<float>;  // of a pair
  Sums sums[integer_rows][V] = {};
  const std::int16_t* left = tile.left;
  const std::int16_t* right = tile.right;
  const char* ahead = tile.ahead.at;
  for (int pair = 0; pair < tile.pairs; ++pair, left += tile.left_pair, right += tile.right_pair) {
    __builtin_prefetch(ahead, 0, 2);
    ahead += tile.ahead.step;
    __m512i b[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) b[v] = _mm512_loadu_si512(right + v * pack_values);
#pragma GCC unroll 8
    for (int m = 0; m < integer_rows; ++m) {
      int both;
      std::memcpy(&both, left + m * tile.left_step, sizeof(both));
      const __m512i a = _mm512_set1_epi32(both);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[m][v] = (Sums)_mm512_dpwssd_epi32((__m512i)sums[m][v], a, b[v]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    const __m512 column_scales = _mm512_loadu_ps(tile.column_scales + v * lanes<float>);
#pragma GCC unroll 8
    for (int m = 0; m < integer_rows; ++m) {
      float* const out = tile.out + m * tile.out_pitch + v * lanes<float>;
      const __m512 row_scale = _mm512_set1_ps(tile.row_scales[m]);
      const __m512 sum = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(0xffff, (__m512i)sums[m][v]), column_scales);
      _mm512_storeu_ps(
          out, tile.accumulate ? _mm512_fmadd_ps(sum, row_scale, _mm512_loadu_ps(out)) : _mm512_mul_ps(sum, row_scale));
    }
  }
}

}  // namespace

bool multiplies_integers() {
  static const bool multiplies = __builtin_cpu_supports("avx512vnni") != 0;
  return multiplies;
}

float integer_limit(int depth) {
  constexpr double largest_sum = std::numeric_limits<std::int32_t>::max();
  constexpr double largest = std::numeric_limits<std::int16_t>::max();
  return static_cast<float>(std::min(largest, std::floor(std::sqrt(largest_sum / std::min(depth, integer_depth)))));
}

void round_to_rows(const float* from, long from_pitch, int rows, int count, float limit, std::int16_t* to,
                   long to_pitch, float* scales, long scales_pitch) {
  const float of_limit = 1 / limit;
  for (int row = 0; row < rows; ++row, from += from_pitch, to += to_pitch, scales += scales_pitch) {
    __m512i largest = _mm512_setzero_si512();
    for (int c = 0; c < count; c += lanes<float>) largest = larger(largest, magnitudes(from + c));
    const float value = largest_lane(largest);
    *scales = value * of_limit;
    const __m512 factor = _mm512_set1_ps(limit / value);
    for (int c = 0; c < count; c += lanes<float>) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c),
                          _mm512_maskz_cvtepi32_epi16(0xffff, rounded(from + c, factor)));
    }
  }
}

void round_to_columns(const float* from, long from_pitch, int depth, float limit, void* to, long to_pitch,
                      float* scales) {
  __m512i largest = _mm512_setzero_si512();
  for (int d = 0; d < depth; ++d) largest = larger(largest, magnitudes(from + d * from_pitch));
  const __m512 values = _mm512_castsi512_ps(largest);
  _mm512_storeu_ps(scales, _mm512_mul_ps(values, _mm512_set1_ps(1 / limit)));
  const __m512 factor = _mm512_div_ps(_mm512_set1_ps(limit), values);
  auto* pairs = static_cast<std::int32_t*>(to);
  for (int d = 0; d < depth; d += 2, from += 2 * from_pitch, pairs += to_pitch) {
    const __m512i low = _mm512_maskz_mov_epi16(0x55555555, rounded(from, factor));
    const __m512i high = d + 1 < depth ? _mm512_maskz_slli_epi32(0xffff, rounded(from + from_pitch, factor), 16)
                                       : _mm512_setzero_si512();
    _mm512_storeu_si512(pairs, _mm512_or_si512(low, high));
  }
}

void multiply_integers(int packs, const IntegerTile& tile) {
  packs == 1 ? multiply<1>(tile) : multiply<2>(tile);
}

}  // namespace halograd::host

#endif
