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

/// The upper half of a float (bfloat16: 7 bits of fraction), rounded to nearest, ties to even; a NaN stays one.
KOKKOS_INLINE_FUNCTION std::uint16_t bf16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>((nan ? bits | 0x400000U : rounded) >> 16U);
}
KOKKOS_INLINE_FUNCTION float float_of_bf16(std::uint32_t bits) {
  return float_of(bits << 16U);
}

}  // namespace halograd
