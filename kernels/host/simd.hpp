#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/pack.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define HALOGRAD_AVX512  // of every CPU that has it since Skylake
#endif
#if defined(__AVX__)
#include <immintrin.h>
#endif

/// Fixed-size vectors of the compiler, so that one source serves AVX2, AVX-512, NEON and plain SSE; the width follows
/// the instruction set that the build chose. Values stored as Bfloat16 are loaded into floats and rounded as they are
/// stored: T is the type in memory, a pack holds Wide<T>.
namespace halograd::host {

#if defined(HALOGRAD_AVX512)
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
using Pack = typename Simd<Wide<T>, simd_bytes>::Pack;
template <class T>
constexpr int lanes = simd_bytes / static_cast<int>(sizeof(Wide<T>));

/// All lanes the same.
template <class T>
inline Pack<T> broadcast(T value) {
  return value - Pack<T>{};
}

/// Half a pack, for the last few columns: half the time where a pack is two operations of the hardware (Zen 4).
constexpr bool has_half_packs = simd_bytes == 64;
template <class T>
using HalfPack = typename Simd<Wide<T>, has_half_packs ? simd_bytes / 2 : simd_bytes>::Pack;
template <class T>
inline HalfPack<T> low_half(const Pack<T>& pack) {
  HalfPack<T> half;
  std::memcpy(&half, &pack, sizeof(half));
  return half;
}
template <class T>
constexpr int half_lanes = lanes<T> / (has_half_packs ? 2 : 1);

template <class P, class T>
inline P load_as(const T* from) {
  P pack;
  load_pack(from, pack);
  return pack;
}
template <class T>
inline Pack<T> load(const T* from) {
  return load_as<Pack<T>>(from);
}

template <class T>
inline void store(const Pack<T>& pack, T* to) {
  store_pack(pack, to);
}

#if defined(HALOGRAD_AVX512)
// A copy of a length known at run time would cost more than the products of a short row: use the mask registers.
inline __m512 masked_load(unsigned mask, const float* from) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
}
inline __m512d masked_load(unsigned mask, const double* from) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
}
inline __m512 masked_load(unsigned mask, const Bfloat16* from) {
  const __m256i halves = _mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), from);
  __m512 pack;
  load_pack(reinterpret_cast<const Bfloat16*>(&halves), pack);
  return pack;
}
inline void masked_store(unsigned mask, __m512 pack, Bfloat16* to) {
  __m256i halves;
  store_pack(pack, reinterpret_cast<Bfloat16*>(&halves));
  _mm256_mask_storeu_epi16(to, static_cast<__mmask16>(mask), halves);
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
#else
/// Copies `count` values, fewer than `all`, in pieces of known lengths: otherwise each copy would be a call.
template <int all, class T>
inline void copy_first(const T* from, int count, T* to) {
#pragma GCC unroll 8
  for (int piece = all / 2; piece > 0; piece /= 2) {
    if ((count & piece) == 0) continue;
    std::memcpy(static_cast<void*>(to), from, sizeof(T) * static_cast<std::size_t>(piece));
    from += piece;
    to += piece;
  }
}
#endif

/// Loads the first `count` lanes of a pack or half pack, the others zero; `count` may be more than there are, or
/// negative.
template <class P, class T>
inline P load_first(const T* from, int count) {
  constexpr int all = static_cast<int>(sizeof(P) / sizeof(Wide<T>));
  if (count >= all) return load_as<P>(from);
  P pack{};
  if (count > 0) {
#if defined(HALOGRAD_AVX512)
    const auto wide = masked_load((1U << count) - 1U, from);
    std::memcpy(&pack, &wide, sizeof(pack));
#else
#if defined(__AVX__)
    if constexpr (std::is_same_v<T, float>) {  // pieces of a pack, just written, would be waited for
      static constexpr int mask[2 * all] = {-1, -1, -1, -1, -1, -1, -1, -1};
      return _mm256_maskload_ps(from, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask + all - count)));
    }
#endif
    T copies[all] = {};
    copy_first<all>(from, count, copies);
    load_pack(copies, pack);
#endif
  }
  return pack;
}

/// Stores the first `count` lanes.
template <class P, class T>
inline void store_first(const P& pack, T* to, int count) {
  constexpr int all = static_cast<int>(sizeof(P) / sizeof(Wide<T>));
  if (count >= all) {
    store_pack(pack, to);
  } else if (count > 0) {
#if defined(HALOGRAD_AVX512)
    if constexpr (sizeof(P) == 64) {
      masked_store((1U << count) - 1U, pack, to);
    } else {
      masked_store((1U << count) - 1U, widen(pack), to);
    }
#else
    T copies[all];
    store_pack(pack, copies);
    copy_first<all>(copies, count, to);
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

}  // namespace halograd::host
