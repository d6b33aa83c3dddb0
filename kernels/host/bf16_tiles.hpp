#pragma once

#include "kernels/bfloat16.hpp"
#include "kernels/host/bf16_units.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/pack.hpp"

/// How floats and stored values become the tiles of bf16_units.hpp.
namespace halograd::host::bf16 {

typedef std::uint32_t Pairs __attribute__((vector_size(tile_width * sizeof(std::uint32_t))));

typedef Simd<float, tile_width * sizeof(float)>::Pack Row;
/// Never the result of a call: such vectors have another ABI on each vector unit.
inline void load_row(const float* from, Row& to) {
  std::memcpy(&to, from, sizeof(to));
}

// Written as vectors: g++ takes loops over sixteen values apart before it would see vectors in them.
/// Sixteen floats, rounded.
inline void round_row(const float* from, std::uint16_t* to) {
  Row row;
  load_row(from, row);
  store_pack(row, reinterpret_cast<Bfloat16*>(to));
}

/// Sixteen stored values as floats.
inline void widen_row(const Bfloat16* from, Row& to) {
  load_pack(from, to);
}

#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
/// Twice sixteen stored values in pairs: first[0], second[0], first[1], ...
inline void pair_rows(const void* first, const void* second, std::uint32_t* to) {
  typedef std::uint16_t Halves __attribute__((vector_size(tile_width * sizeof(std::uint16_t))));
  Halves halves[2];
  Pairs low, high;
  std::memcpy(&halves[0], first, sizeof(Halves));
  std::memcpy(&halves[1], second, sizeof(Halves));
  resize_lanes(halves[0], low);
  resize_lanes(halves[1], high);
  low |= high << 16U;
  std::memcpy(to, &low, sizeof(low));
}
#else
inline void pair_rows(const void* first, const void* second, std::uint32_t* to) {
  std::uint16_t low[tile_width], high[tile_width];
  std::memcpy(low, first, sizeof(low));
  std::memcpy(high, second, sizeof(high));
  for (int i = 0; i < tile_width; ++i) to[i] = low[i] | static_cast<std::uint32_t>(high[i]) << 16U;
}
#endif

/// Any number of them.
inline void round_values(const float* from, long count, std::uint16_t* to) {
  long i = 0;
  for (; i + tile_width <= count; i += tile_width) round_row(from + i, to + i);
  for (; i < count; ++i) to[i] = bf16_of(from[i]);
}

/// Twice sixteen floats, rounded, in pairs.
inline void round_pairs(const float* first, const float* second, std::uint32_t* to) {
  std::uint16_t low[tile_width], high[tile_width];
  round_row(first, low);
  round_row(second, high);
  pair_rows(low, high, to);
}

/// A tile, given as 16 lines of 16 pairs, mirrored at its diagonal: the left form of what was made in the right one,
/// and the other way round.
inline void mirror_tile(const std::uint32_t* from, std::uint32_t* to) {
#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
  // Vectors are never passed by value: that has another ABI on each vector unit.
  Pairs line[16], turned[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(&line[i], from + 16 * i, sizeof(Pairs));
    // Squares of 2 x 2, then of 4 x 4: each line has then one column of four lines in each quarter.
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    turned[i] = __builtin_shufflevector(line[i], line[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    turned[i + 1] =
        __builtin_shufflevector(line[i], line[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const Pairs &above = turned[i + j], &below = turned[i + 2 + j];
      line[i + 2 * j] = __builtin_shufflevector(above, below, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      line[i + 2 * j + 1] =
          __builtin_shufflevector(above, below, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
  // Then the quarters themselves: the even ones of two lines, and the odd ones.
  const auto halve = [](const Pairs& a, const Pairs& b, Pairs& even, Pairs& odd) {
    even = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    odd = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  };
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Pairs above[2], below[2], quarters[4];
    halve(line[i], line[4 + i], above[0], above[1]);
    halve(line[8 + i], line[12 + i], below[0], below[1]);
    halve(above[0], below[0], quarters[0], quarters[2]);
    halve(above[1], below[1], quarters[1], quarters[3]);
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; ++quarter) {
      std::memcpy(to + 16 * (4 * quarter + i), &quarters[quarter], sizeof(Pairs));
    }
  }
#else
  for (int i = 0; i < tile_width; ++i) {
    for (int j = 0; j < tile_width; ++j) to[16 * j + i] = from[16 * i + j];
  }
#endif
}

/// Rounded up to whole tiles.
constexpr long whole_widths(long count) {
  return (count + tile_width - 1) / tile_width * tile_width;
}
constexpr long whole_steps(long depth) {
  return (depth + tile_depth - 1) / tile_depth;
}

/// The first `count` of sixteen values, the others zero: `from` itself where it has all.
template <class T>
inline const T* readable_row(const T* from, long count, T* copy) {
  if (count >= tile_width) return from;
  std::fill(std::copy(from, from + std::max(count, 0L), copy), copy + tile_width, T(0.0F));
  return copy;
}

}  // namespace halograd::host::bf16
