#include "kernels/host/bf16_units.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/float_bits.hpp"

#if defined(__x86_64__) && defined(__linux__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define HALOGRAD_BF16_INSTRUCTIONS
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace halograd::host::bf16 {
namespace {

bool always() {
  return true;
}
void nothing() {}

void multiply_plainly(const Product& p) {
  for (int row = 0; row < p.row_blocks * tile_width; ++row) {
    const std::uint16_t* const line = p.left[row / tile_width] + row % tile_width * p.left_line;
    for (int block = 0; block < p.column_blocks; ++block) {
      const std::uint16_t* const right = p.right + block * p.right_pitch;
      float* const to = p.sums + row * p.sums_pitch + static_cast<long>(block) * tile_width;
      float sums[tile_width] = {};
      if (p.accumulate) std::copy(to, to + tile_width, sums);
      for (int step = 0; step < p.steps; ++step) {
        const std::uint16_t* const left = line + p.left_step[step];
        for (int d = 0; d < tile_depth; d += 2) {
          const float first = float_of_bf16(left[d]), second = float_of_bf16(left[d + 1]);
          const std::uint16_t* const pairs = right + step * tile_values + d * tile_width;
          for (int c = 0; c < tile_width; ++c) {
            sums[c] += first * float_of_bf16(pairs[2 * c]) + second * float_of_bf16(pairs[2 * c + 1]);
          }
        }
      }
      std::copy(sums, sums + tile_width, to);
    }
  }
}

#ifdef HALOGRAD_BF16_INSTRUCTIONS

// AVX512_BF16 ---------------------------------------------------------------------------------------------------------

bool has_dot_products() {
  return __builtin_cpu_supports("avx512bf16") != 0;
}

/// Fetches Lines in that many pieces: those to read into the second-level cache.
class Fetch {
 public:
  Fetch(const Lines& lines, long pieces)
      : next_(static_cast<const char*>(lines.first)),
        pitch_(lines.pitch),
        left_(lines.count),
        piece_((lines.count + pieces - 1) / pieces),
        to_write_(lines.to_write) {}
  void piece() {
    const long last = std::max(0L, left_ - piece_);
    for (; left_ > last; --left_, next_ += pitch_) {
      to_write_ ? __builtin_prefetch(next_, 1, 3) : __builtin_prefetch(next_, 0, 2);
    }
  }

 private:
  const char* next_;
  long pitch_, left_, piece_;
  bool to_write_;
};

/// Rows are taken in groups, which lie within a block; the sums of three groups and 32 columns fill the registers.
constexpr int group_rows = 4, most_groups = 3;

template <int groups, int columns>
__attribute__((target("avx512f,avx512bf16"))) void dot_products(const Product& p, int first_group, int column,
                                                                Fetch (&ahead)[3]) {
  constexpr int rows = groups * group_rows;
  float* const to = p.sums + static_cast<long>(first_group) * group_rows * p.sums_pitch + column * tile_width;
  constexpr int long_depth = 8;  // steps
  const bool fetch_sums = !p.accumulate && p.steps >= long_depth;
  __m512 sums[rows][columns];
#pragma GCC unroll 12
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 2
    for (int c = 0; c < columns; ++c) {
      sums[m][c] = p.accumulate ? _mm512_loadu_ps(to + m * p.sums_pitch + c * tile_width) : _mm512_setzero_ps();
      if (fetch_sums) __builtin_prefetch(to + m * p.sums_pitch + c * tile_width, 1);
    }
  }
  const std::uint16_t* first[groups];
#pragma GCC unroll 3
  for (int g = 0; g < groups; ++g) {
    const int row = (first_group + g) * group_rows;
    first[g] = p.left[row / tile_width] + row % tile_width * p.left_line;
  }
  const std::uint16_t* right = p.right + column * p.right_pitch;
  const long offsets[group_rows] = {0, p.left_line, 2 * p.left_line, 3 * p.left_line};
  for (int step = 0; step < p.steps; ++step) {
    const std::uint16_t* left[groups];
#pragma GCC unroll 3
    for (int g = 0; g < groups; ++g) left[g] = first[g] + p.left_step[step];
    for (Fetch& lines : ahead) lines.piece();
    for (int pair = 0; pair < tile_depth / 2; ++pair, right += 2 * tile_width) {
      __m512 b[columns];
#pragma GCC unroll 2
      for (int c = 0; c < columns; ++c) {
        b[c] = _mm512_loadu_ps(right + c * p.right_pitch);
        __builtin_prefetch(right + c * p.right_pitch + tile_values);  // the next step's
      }
#pragma GCC unroll 12
      for (int m = 0; m < rows; ++m) {
        int both;
        std::memcpy(&both, left[m / group_rows] + offsets[m % group_rows] + 2 * pair, sizeof(both));
        const __m512 a = _mm512_castsi512_ps(_mm512_set1_epi32(both));
#pragma GCC unroll 2
        for (int c = 0; c < columns; ++c) sums[m][c] = _mm512_dpbf16_ps(sums[m][c], (__m512bh)a, (__m512bh)b[c]);
      }
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 2
    for (int c = 0; c < columns; ++c) _mm512_storeu_ps(to + m * p.sums_pitch + c * tile_width, sums[m][c]);
  }
}

void multiply_by_dot_products(const Product& p) {
  const int groups = p.row_blocks * tile_width / group_rows;
  const long pieces =
      static_cast<long>(p.steps) * ((p.column_blocks + 1) / 2) * ((groups + most_groups - 1) / most_groups);
  Fetch ahead[] = {{p.ahead[0], pieces}, {p.ahead[1], pieces}, {p.ahead[2], pieces}};
  for (int column = 0; column < p.column_blocks; column += 2) {
    const bool two_columns = p.column_blocks - column > 1;
    const auto three_groups = two_columns ? dot_products<3, 2> : dot_products<3, 1>;
    const auto two_groups = two_columns ? dot_products<2, 2> : dot_products<2, 1>;
    for (int group = 0; group < groups;) {  // none is left alone
      const int left = groups - group;
      const bool three = left > 2 && left != 4;
      (three ? three_groups : two_groups)(p, group, column, ahead);
      group += three ? 3 : 2;
    }
  }
}

// AMX -----------------------------------------------------------------------------------------------------------------

bool has_tiles() {
  constexpr unsigned amx_bf16 = 1U << 22U, amx_tile = 1U << 24U;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  // Linux gives the state of tiles, 8 KiB a thread, to processes that ask.
  constexpr long ask = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, ask, tile_data) == 0;
}
bool may_use_tiles() {
  static const bool may = has_tiles();
  return may;
}

/// Eight tiles of 16 rows of 64 bytes. Not a variable of the function: g++ 12's intrinsic says that it reads 8 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig tile_config;

__attribute__((target("amx-tile"))) void configure_tiles() {
  _tile_loadconfig(&tile_config);
}
__attribute__((target("amx-tile"))) void release_tiles() {
  _tile_release();
}

/// Sums of up to 2 x 2 tiles, in registers 0 to 3; left tiles in 4 and 5, right ones in 6 and 7. g++'s tile loads do
/// not say that they read memory: what they read is written before a call through Unit, out of the compiler's
/// sight.
template <int rows, int columns>
__attribute__((target("amx-tile,amx-bf16"))) void tile_products(const Product& p, const std::uint16_t* const* left,
                                                                const std::uint16_t* right, float* to) {
  constexpr long right_line = 64;
  const long left_line = p.left_line * static_cast<long>(sizeof(std::uint16_t));
  const long pitch = p.sums_pitch * static_cast<long>(sizeof(float));
  float* const below = to + tile_width * p.sums_pitch;
  if (p.accumulate) {
    _tile_loadd(0, to, pitch);
    if constexpr (columns > 1) _tile_loadd(1, to + tile_width, pitch);
    if constexpr (rows > 1) _tile_loadd(2, below, pitch);
    if constexpr (rows > 1 && columns > 1) _tile_loadd(3, below + tile_width, pitch);
  } else {
    _tile_zero(0);
    if constexpr (columns > 1) _tile_zero(1);
    if constexpr (rows > 1) _tile_zero(2);
    if constexpr (rows > 1 && columns > 1) _tile_zero(3);
  }
  for (int step = 0; step < p.steps; ++step, right += tile_values) {
    const long at = p.left_step[step];
    _tile_loadd(6, right, right_line);
    _tile_loadd(4, left[0] + at, left_line);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (columns > 1) {
      _tile_loadd(7, right + p.right_pitch, right_line);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (rows > 1) {
      _tile_loadd(5, left[1] + at, left_line);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (columns > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, to, pitch);
  if constexpr (columns > 1) _tile_stored(1, to + tile_width, pitch);
  if constexpr (rows > 1) _tile_stored(2, below, pitch);
  if constexpr (rows > 1 && columns > 1) _tile_stored(3, below + tile_width, pitch);
}

void multiply_by_tiles(const Product& p) {
  for (int column = 0; column < p.column_blocks; column += 2) {
    const bool two_columns = p.column_blocks - column > 1;
    const auto pass = two_columns ? tile_products<2, 2> : tile_products<2, 1>;
    const auto last = two_columns ? tile_products<1, 2> : tile_products<1, 1>;
    const std::uint16_t* const right = p.right + column * p.right_pitch;
    for (int row = 0; row < p.row_blocks; row += 2) {
      (p.row_blocks - row > 1 ? pass : last)(p, p.left + row, right,
                                             p.sums + tile_width * (row * p.sums_pitch + column));
    }
  }
}

#endif

}  // namespace

const std::vector<Unit>& units() {
  static const std::vector<Unit> units{
#ifdef HALOGRAD_BF16_INSTRUCTIONS
      {"AMX", may_use_tiles, 12, 4, configure_tiles, multiply_by_tiles, release_tiles},
      // Intel's cores have them at less than the speed of floats.
      {"AVX512_BF16", has_dot_products, __builtin_cpu_is("amd") != 0 ? 2 : 0, 3, nothing, multiply_by_dot_products,
       nothing},
#endif
      {"plain", always, 0, 4, nothing, multiply_plainly, nothing}};
  return units;
}

const Unit* fast_unit() {
  static const Unit* const unit = [] {
    const auto found =
        std::find_if(units().begin(), units().end(), [](const Unit& each) { return each.speed > 1 && each.present(); });
    return found == units().end() ? nullptr : &*found;
  }();
  return unit;
}

}  // namespace halograd::host::bf16
