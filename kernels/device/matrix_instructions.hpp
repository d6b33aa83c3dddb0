#pragma once

#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/device/tile_results.hpp"

/// What the threads of a warp do together on a device's matrix units: C += A B with sums in float, where A is (rows,
/// 8), B (8, columns) and C (rows, columns), of words along the depth. An instruction has
///
///   a format: using Word;  static constexpr int values_in_word;  float rounded(float), word() as tiles have it,
///     float product(Word a, Word b)                        the sum over the values of two words, on a host
///   a layout: static constexpr int threads (of a warp), rows, columns, a_words, b_words (of one thread)
///     Entry a(thread, word), b(thread, word), c(thread, i) what a thread's words and its four sums are: from the first
///                                                          on they lie as thread 0's do
///   void multiply(sums, a_words, b_words)                  on devices that have it
namespace halograd::device {

/// AMD's CDNA devices, on which clang has the instructions; has_matrix_units() knows them by the same names.
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__)
#define HALOGRAD_MFMA
#endif

/// Floats as they are.
struct Fp32 {
  using Word = float;
  static constexpr int values_in_word = 1;

  KOKKOS_FUNCTION static float rounded(float value) { return value; }
  KOKKOS_FUNCTION static float word(float value) { return value; }
  KOKKOS_FUNCTION static float product(float a, float b) { return a * b; }
};

/// Floats rounded to TF32 (10 bits of fraction): words are those floats.
struct Tf32 {
  using Word = float;
  static constexpr int values_in_word = 1;

  /// To the nearest, ties away from zero, as cvt.rna.tf32 does; not finite values stay so.
  KOKKOS_FUNCTION static float rounded(float value) {
    const std::uint32_t bits = bits_of(value);
    return (bits & 0x7f800000U) == 0x7f800000U ? value : float_of((bits + 0x1000U) & 0xffffe000U);
  }
  KOKKOS_FUNCTION static float word(float value) { return rounded(value); }
  KOKKOS_FUNCTION static float product(float a, float b) { return a * b; }
};

/// Floats rounded to Bfloat16 (7 bits of fraction): words are two of them, the first one in the lower half.
struct Bf16 {
  using Word = std::uint32_t;
  static constexpr int values_in_word = 2;

  KOKKOS_FUNCTION static float rounded(float value) { return float_of_bf16(bf16_of(value)); }
  /// Of two values; floats are rounded.
  KOKKOS_FUNCTION static std::uint32_t word(Bfloat16 first, Bfloat16 second) {
    return first.bits() | static_cast<std::uint32_t>(second.bits()) << 16U;
  }
  KOKKOS_FUNCTION static float product(std::uint32_t a, std::uint32_t b) {
    return float_of_bf16(a & 0xffffU) * float_of_bf16(b & 0xffffU) + float_of_bf16(a >> 16U) * float_of_bf16(b >> 16U);
  }
};

struct Entry {
  int row, column;
};

/// NVIDIA's, from sm_80 on: PTX ISA, fragments of mma.m16n8k8 for .tf32 and of mma.m16n8k16 for .bf16.
struct MmaLayout {
  static constexpr int threads = 32, rows = 16, columns = 8, a_words = 4, b_words = 2;
  KOKKOS_FUNCTION static Entry a(int thread, int word) {
    return {thread / 4 + word % 2 * 8, thread % 4 + word / 2 * 4};
  }
  KOKKOS_FUNCTION static Entry b(int thread, int word) { return {thread % 4 + word * 4, thread / 4}; }
  KOKKOS_FUNCTION static Entry c(int thread, int i) { return {thread / 4 + i / 2 * 8, thread % 4 * 2 + i % 2}; }
};

struct MmaTf32 : Tf32, MmaLayout {
#if defined(__CUDA_ARCH__)
  __device__ static void multiply(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
  }
#endif
};

struct MmaBf16 : Bf16, MmaLayout {
#if defined(__CUDA_ARCH__)
  __device__ static void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
};

/// AMD's, by the tables of AMD's matrix instruction calculator: v_mfma_f32_16x16x16bf16_1k, whose threads have two
/// words that follow each other. v_mfma_f32_16x16x4f32 and gfx908's v_mfma_f32_16x16x8bf16 are four words deep, one a
/// thread: two of them, for the first and for the second words, are the same product, its depth in another order.
struct MfmaLayout {
  static constexpr int threads = 64, rows = 16, columns = 16, a_words = 2, b_words = 2;
  KOKKOS_FUNCTION static Entry a(int thread, int word) { return {thread % 16, thread / 16 * 2 + word}; }
  KOKKOS_FUNCTION static Entry b(int thread, int word) { return {thread / 16 * 2 + word, thread % 16}; }
  KOKKOS_FUNCTION static Entry c(int thread, int i) { return {thread / 16 * 4 + i, thread % 16}; }

#if defined(HALOGRAD_MFMA)
  using Sums = __attribute__((ext_vector_type(4))) float;
  __device__ static Sums load(const float (&c)[4]) {
    return {c[0], c[1], c[2], c[3]};
  }
  __device__ static void store(const Sums& sums, float (&c)[4]) {
    for (int i = 0; i < 4; ++i) c[i] = sums[i];
  }
#endif
};

/// In full precision, at twice the rate of multiply-adds.
struct MfmaFp32 : Fp32, MfmaLayout {
#if defined(HALOGRAD_MFMA)
  __device__ static void multiply(float (&c)[4], const float (&a)[2], const float (&b)[2]) {
    const Sums first = __builtin_amdgcn_mfma_f32_16x16x4f32(a[0], b[0], load(c), 0, 0, 0);
    store(__builtin_amdgcn_mfma_f32_16x16x4f32(a[1], b[1], first, 0, 0, 0), c);
  }
#endif
};

struct MfmaBf16 : Bf16, MfmaLayout {
#if defined(HALOGRAD_MFMA)
  __device__ static void multiply(float (&c)[4], const std::uint32_t (&a)[2], const std::uint32_t (&b)[2]) {
#if defined(__gfx908__)
    using Values = __attribute__((ext_vector_type(2))) short;
    const auto product = [](std::uint32_t left, std::uint32_t right, const Sums& sums) {
      return __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(Values, left), __builtin_bit_cast(Values, right),
                                                   sums, 0, 0, 0);
    };
    store(product(a[1], b[1], product(a[0], b[0], load(c))), c);
#else
    using Words = __attribute__((ext_vector_type(2))) std::uint32_t;
    using Values = __attribute__((ext_vector_type(4))) short;
    const auto values = [](const std::uint32_t(&words)[2]) {
      return __builtin_bit_cast(Values, Words{words[0], words[1]});
    };
    store(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k(values(a), values(b), load(c), 0, 0, 0), c);
#endif
  }
#endif
};

}  // namespace halograd::device
