#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace halograd {

/// A well mixed 64-bit hash of one word: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
KOKKOS_INLINE_FUNCTION std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

/// A counter-based random word: the same (key, counter) gives the same word on every device, in every order, so
/// that dropout masks, augmentation and initial weights need no generator state in a checkpoint.
KOKKOS_INLINE_FUNCTION std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  return mix_bits(mix_bits(key) ^ counter);
}

/// Uniform in [0, 1) with 24 bits.
KOKKOS_INLINE_FUNCTION float random_uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<float>(random_bits(key, counter) >> 40U) * 0x1p-24F;
}

}  // namespace halograd
