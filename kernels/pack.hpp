#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/bfloat16.hpp"
#include "kernels/chunks.hpp"

#if defined(__AVX512F__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#include <immintrin.h>
#endif

namespace halograd {

/// `lanes` values of T, the integers of a comparison between two of them, and as many bytes. On hosts these are the
/// compiler's vectors, for loops that its vectoriser leaves scalar: selections between floats and bytes over few
/// channels. One lane, all there is on accelerators, is plain scalars: the same expressions serve both.
template <class T, int lanes>
struct Pack;

template <class T>
struct Pack<T, 1> {
  using Value = T;
  using Index = int;
  using Bytes = std::uint8_t;
  using Shorts = std::uint16_t;
};

#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
// As many floats as a register holds: g++ takes comparisons of longer vectors apart, lane by lane.
#if defined(__AVX512F__)
constexpr int pack_lanes = runs_on_host ? 16 : 1;
#elif defined(__AVX__)
constexpr int pack_lanes = runs_on_host ? 8 : 1;
#else
constexpr int pack_lanes = runs_on_host ? 4 : 1;
#endif

template <class T, int lanes>
struct Pack {
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef T Value __attribute__((vector_size(lanes * sizeof(T))));
  typedef Integer Index __attribute__((vector_size(lanes * sizeof(T))));
  typedef std::uint8_t Bytes __attribute__((vector_size(lanes)));
  typedef std::uint16_t Shorts __attribute__((vector_size(2 * lanes)));
  typedef std::uint32_t Words __attribute__((vector_size(4 * lanes)));
};

/// Between bytes and integers, by way of 16 bits: g++ converts at once by taking the lanes apart.
template <class Shorts, class To, class From>
KOKKOS_FORCEINLINE_FUNCTION void convert_pack(const From& from, To& to) {
  if constexpr (std::is_arithmetic_v<To>) {
    to = static_cast<To>(from);
  } else {
    to = __builtin_convertvector(__builtin_convertvector(from, Shorts), To);
  }
}

/// Between 16 and 32 bits: g++ takes vectors of AVX-512 apart. It also warns of the intrinsics that have no mask.
template <class From, class To>
KOKKOS_FORCEINLINE_FUNCTION void resize_lanes(const From& from, To& to) {
#if defined(__AVX512F__)
  if constexpr (sizeof(To) == 64) {
    to = reinterpret_cast<To>(_mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(from)));
    return;
  } else if constexpr (sizeof(From) == 64) {
    to = reinterpret_cast<To>(_mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(from)));
    return;
  }
#if defined(__AVX512VL__)
  if constexpr (sizeof(From) == 32 && sizeof(To) == 16) {
    to = reinterpret_cast<To>(_mm256_maskz_cvtepi32_epi16(0xff, reinterpret_cast<__m256i>(from)));
    return;
  }
#endif
#endif
  to = __builtin_convertvector(from, To);
}

/// Floats from and to where they are stored as Bfloat16, their upper halves.
template <class Floats>
KOKKOS_FORCEINLINE_FUNCTION void load_pack(const Bfloat16* from, Floats& to) {
  if constexpr (std::is_arithmetic_v<Floats>) {
    to = *from;
  } else {
    using Types = Pack<float, sizeof(Floats) / sizeof(float)>;
    typename Types::Shorts halves;
    typename Types::Words bits;
    std::memcpy(&halves, from, sizeof(halves));
    resize_lanes(halves, bits);
    to = reinterpret_cast<Floats>(bits << 16U);
  }
}

template <class Floats>
KOKKOS_FORCEINLINE_FUNCTION void store_pack(const Floats& from, Bfloat16* to) {
  if constexpr (std::is_arithmetic_v<Floats>) {
    *to = from;
  } else {
    using Types = Pack<float, sizeof(Floats) / sizeof(float)>;
    typename Types::Shorts halves;
#if defined(__AVX512BF16__)
    if constexpr (sizeof(Floats) == 64) {
      halves = reinterpret_cast<typename Types::Shorts>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(from)));
    } else
#endif
    {
      auto bits = reinterpret_cast<typename Types::Words>(from);
      round_to_bf16(bits);
      resize_lanes(bits, halves);
    }
    std::memcpy(static_cast<void*>(to), &halves, sizeof(halves));
  }
}
#else
constexpr int pack_lanes = 1;

template <class Shorts, class To, class From>
KOKKOS_FORCEINLINE_FUNCTION void convert_pack(const From& from, To& to) {
  to = static_cast<To>(from);
}

template <class Floats>
requires(!std::is_arithmetic_v<Floats>) inline void load_pack(const Bfloat16* from, Floats& to) {
  for (std::size_t i = 0; i < sizeof(to) / sizeof(float); ++i) to[i] = from[i];
}

template <class Floats>
requires(!std::is_arithmetic_v<Floats>) inline void store_pack(const Floats& from, Bfloat16* to) {
  for (std::size_t i = 0; i < sizeof(from) / sizeof(float); ++i) to[i] = from[i];
}
#endif

// By reference: a vector passed by value has another ABI on each vector unit. Only scalars for devices: nvcc lets no
// vector into their code.
template <class T, class Value>
requires std::is_arithmetic_v<Value> KOKKOS_FORCEINLINE_FUNCTION void load_pack(const T* from, Value& to) {
  to = *from;
}
template <class T, class Value>
requires(!std::is_arithmetic_v<Value>) [[gnu::always_inline]] inline void load_pack(const T* from, Value& to) {
  std::memcpy(&to, from, sizeof(Value));
}

template <class T, class Value>
requires std::is_arithmetic_v<Value> KOKKOS_FORCEINLINE_FUNCTION void store_pack(const Value& from, T* to) {
  *to = from;
}
template <class T, class Value>
requires(!std::is_arithmetic_v<Value>) [[gnu::always_inline]] inline void store_pack(const Value& from, T* to) {
  std::memcpy(to, &from, sizeof(Value));
}

/// A number of lanes as an argument of a function: std::integral_constant, but also for code on accelerators.
template <int count>
struct Lanes {
  KOKKOS_FORCEINLINE_FUNCTION constexpr operator int() const { return count; }
};

/// Calls body(index, lanes) for pieces of [0, count), with lanes a compile-time pack_lanes, 4 or 1. A body that may be
/// repeated gets no scalar remainder: its last piece overlaps the one before.
template <bool repeatable, class Body>
KOKKOS_FORCEINLINE_FUNCTION void for_each_pack(int count, const Body& body) {
  int index = 0;
  if constexpr (pack_lanes > 1) {
    constexpr Lanes<pack_lanes> wide{};
    constexpr Lanes<4> narrow{};
    for (; index + wide <= count; index += wide) body(index, wide);
    if (repeatable && index < count && count >= wide) {
      body(count - wide, wide);
      return;
    }
    for (; index + narrow <= count; index += narrow) body(index, narrow);
    if (repeatable && index < count && count >= narrow) {
      body(count - narrow, narrow);
      return;
    }
  }
  for (; index < count; ++index) body(index, Lanes<1>());
}

/// Stored values to what a kernel computes in, or back.
template <class From, class To>
KOKKOS_FORCEINLINE_FUNCTION void copy_values(const From* from, long count, To* to) {
  for_each_pack<false>(static_cast<int>(count), [=](int i, auto lanes) {
    typename Pack<Wide<From>, lanes>::Value pack;
    load_pack(from + i, pack);
    store_pack(pack, to + i);
  });
}

}  // namespace halograd
