#pragma once

#include <type_traits>

#include "kernels/float_bits.hpp"

namespace halograd {

/// A value as the format bfloat16 has it: for memory alone, its arithmetic is that of the floats that it converts to.
/// Loops copy it by way of Wide<T>: g++ leaves copies of a class scalar.
class Bfloat16 {
 public:
  Bfloat16() = default;
  KOKKOS_FORCEINLINE_FUNCTION Bfloat16(float value) : bits_(bf16_of(value)) {}  // NOLINT(google-explicit-constructor)
  KOKKOS_FORCEINLINE_FUNCTION operator float() const {                          // NOLINT(google-explicit-constructor)
    return float_of_bf16(bits_);
  }
  [[nodiscard]] KOKKOS_FORCEINLINE_FUNCTION std::uint16_t bits() const { return bits_; }

 private:
  std::uint16_t bits_;
};
static_assert(std::is_trivial_v<Bfloat16> && sizeof(Bfloat16) == 2);

/// What a kernel computes in whose values are stored as T; also the type of the weights and statistics beside them.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, Bfloat16>, float, T>;

}  // namespace halograd
