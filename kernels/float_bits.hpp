#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>

/// Floats as bits, on hosts and devices alike.
namespace halograd {

KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(float value) {
  union {
    float number;
    std::uint32_t bits;
  } both{value};
  return both.bits;
}
KOKKOS_INLINE_FUNCTION float float_of(std::uint32_t bits) {
  union {
    std::uint32_t bits;
    float number;
  } both{bits};
  return both.number;
}

/// The upper half of a float (bfloat16: 7 bits of fraction), rounded to nearest, ties to even; a NaN stays one. `bits`
/// are a float's or a vector of them.
template <class Bits>
KOKKOS_FORCEINLINE_FUNCTION void round_to_bf16(Bits& bits) {
  const Bits rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
  const auto nan = (bits & 0x7fffffffU) > 0x7f800000U;
  bits = (nan ? bits | 0x400000U : rounded) >> 16U;
}
KOKKOS_INLINE_FUNCTION std::uint16_t bf16_of(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  std::uint32_t bits = bits_of(value);
  round_to_bf16(bits);
  return static_cast<std::uint16_t>(bits);
#endif
}
KOKKOS_INLINE_FUNCTION float float_of_bf16(std::uint32_t bits) {
  return float_of(bits << 16U);
}

}  // namespace halograd
