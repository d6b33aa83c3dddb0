#pragma once

#include <cstdint>

#include "kernels/float_bits.hpp"
#include "kernels/types.hpp"

/// Unrolls a loop of constant length on devices, where arrays stay in registers only then.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define HALOGRAD_UNROLL _Pragma("unroll")
#else
#define HALOGRAD_UNROLL
#endif

/// How the threads of a team multiply two panels in shared memory and hold their part of a tile's results. A tile has
///
///   using Value;  static constexpr int rows, columns, depth (of a panel), threads
///   using Word;   static constexpr int values_in_word      what a panel holds: so many values along the depth
///   static void put(Word* word, int part, Value)           a value into its part of a word
///   class Results                                          of one thread
///     void multiply<a_stride, b_stride>(thread, a, b)      adds A B, of panels (depth / values_in_word, stride)
///     void for_each(thread, visit) const                   visit(row, column, sum), in the tile
namespace halograd::device {

/// Values that are loaded and stored at once.
template <class T>
struct alignas(4 * sizeof(T)) Quad {
  T value[4];
};

/// Multiply-adds: each thread has ThreadRows x ThreadColumns results, multiples of 4.
template <class T, int Rows, int Columns, int ThreadRows, int ThreadColumns>
struct FmaTile {
  using Value = T;
  using Word = T;
  static constexpr int values_in_word = 1;
  static constexpr int rows = Rows, columns = Columns;
  static constexpr int depth = 64 / static_cast<int>(sizeof(T));
  static constexpr int threads_in_row = Columns / ThreadColumns;
  static constexpr int threads = Rows / ThreadRows * threads_in_row;
  static_assert(ThreadRows % 4 == 0 && ThreadColumns % 4 == 0);

  KOKKOS_FUNCTION static void put(T* word, int /*part*/, T value) { *word = value; }

  class Results {
   public:
    KOKKOS_FUNCTION Results() {
      for (auto& row : sums_) {
        for (T& sum : row) sum = T(0);
      }
    }
    template <int a_stride, int b_stride>
    KOKKOS_FUNCTION void multiply(int thread, const T* a, const T* b) {
      HALOGRAD_UNROLL
      for (int k = 0; k < depth; ++k) {
        T left[ThreadRows], right[ThreadColumns];
        gather<Rows>(a + k * a_stride, thread / threads_in_row, left);
        gather<Columns>(b + k * b_stride, thread % threads_in_row, right);
        HALOGRAD_UNROLL
        for (int i = 0; i < ThreadRows; ++i) {
          HALOGRAD_UNROLL
          for (int j = 0; j < ThreadColumns; ++j) sums_[i][j] += left[i] * right[j];
        }
      }
    }
    template <class Visit>
    KOKKOS_FUNCTION void for_each(int thread, const Visit& visit) const {
      HALOGRAD_UNROLL
      for (int i = 0; i < ThreadRows; ++i) {
        const int row = spread<Rows, ThreadRows>(thread / threads_in_row, i);
        HALOGRAD_UNROLL
        for (int j = 0; j < ThreadColumns; ++j) {
          visit(row, spread<Columns, ThreadColumns>(thread % threads_in_row, j), sums_[i][j]);
        }
      }
    }

   private:
    /// A thread's i-th place of `mine` along a tile's side: quads, with those of the other threads between them, so
    /// that the threads of a warp read next to each other.
    template <int length, int mine>
    KOKKOS_FUNCTION static int spread(int thread, int i) {
      return i / 4 * (length / mine * 4) + thread * 4 + i % 4;
    }
    template <int length, int mine>
    KOKKOS_FUNCTION static void gather(const T* line, int thread, T (&values)[mine]) {
      HALOGRAD_UNROLL
      for (int i = 0; i < mine; i += 4) {
        const Quad<T> quad = *reinterpret_cast<const Quad<T>*>(line + spread<length, mine>(thread, i));
        for (int j = 0; j < 4; ++j) values[i + j] = quad.value[j];
      }
    }

    T sums_[ThreadRows][ThreadColumns];
  };
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
  KOKKOS_FUNCTION static void put(float* word, int /*part*/, float value) { *word = rounded(value); }
  KOKKOS_FUNCTION static float product(float a, float b) { return a * b; }
#if defined(__CUDA_ARCH__)
  __device__ static void multiply(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
  }
#endif
};

/// Floats rounded to bfloat16 (7 bits of fraction): words are two of them, the first one in the lower half.
struct Bf16 {
  using Word = std::uint32_t;
  static constexpr int values_in_word = 2;

  KOKKOS_FUNCTION static float rounded(float value) { return float_of_bf16(bf16_of(value)); }
  KOKKOS_FUNCTION static void put(std::uint32_t* word, int part, float value) {
    const std::uint16_t bits = bf16_of(value);
    memcpy(reinterpret_cast<char*>(word) + 2 * part, &bits, sizeof(bits));
  }
  KOKKOS_FUNCTION static float product(std::uint32_t a, std::uint32_t b) {
    return float_of_bf16(a & 0xffffU) * float_of_bf16(b & 0xffffU) + float_of_bf16(a >> 16U) * float_of_bf16(b >> 16U);
  }
#if defined(__CUDA_ARCH__)
  __device__ static void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
};

/// NVIDIA's matrix units on rounded floats, with sums in float: each warp of 32 threads has WarpRows x WarpColumns
/// results, multiplied 16 x 8 by a depth of 8 words at a time (PTX ISA, mma.m16n8k8 of .tf32 and mma.m16n8k16 of .bf16:
/// which thread holds which entries). A host computes each thread's results one by one, from the same rounded values.
template <class Format, int Rows, int Columns, int WarpRows, int WarpColumns, int Depth = 16>
struct MatrixTile {
  using Value = float;
  using Word = typename Format::Word;
  static constexpr int values_in_word = Format::values_in_word;
  static constexpr int rows = Rows, columns = Columns, depth = Depth, words_deep = depth / values_in_word;
  static constexpr int warps_in_row = Columns / WarpColumns;
  static constexpr int threads = Rows / WarpRows * warps_in_row * 32;
  static_assert(WarpRows % 16 == 0 && WarpColumns % 8 == 0 && words_deep % 8 == 0);

  KOKKOS_FUNCTION static void put(Word* word, int part, float value) { Format::put(word, part, value); }

  class Results {
   public:
    KOKKOS_FUNCTION Results() {
      for (auto& row : sums_) {
        for (auto& fragment : row) {
          for (float& sum : fragment) sum = 0;
        }
      }
    }
    template <int a_stride, int b_stride>
    KOKKOS_FUNCTION void multiply(int thread, const Word* a, const Word* b) {
#if defined(__CUDA_ARCH__)
      const int group = thread % 32 / 4, lane = thread % 4;
      const Word* const left = a + lane * a_stride + first_row(thread) + group;
      const Word* const right = b + lane * b_stride + first_column(thread) + group;
      HALOGRAD_UNROLL
      for (int k = 0; k < words_deep; k += 8) {
        Word right_words[WarpColumns / 8][2];
        HALOGRAD_UNROLL
        for (int n = 0; n < WarpColumns / 8; ++n) {
          right_words[n][0] = right[k * b_stride + 8 * n];
          right_words[n][1] = right[(k + 4) * b_stride + 8 * n];
        }
        HALOGRAD_UNROLL
        for (int m = 0; m < WarpRows / 16; ++m) {
          const Word left_words[4] = {left[k * a_stride + 16 * m], left[k * a_stride + 16 * m + 8],
                                      left[(k + 4) * a_stride + 16 * m], left[(k + 4) * a_stride + 16 * m + 8]};
          HALOGRAD_UNROLL
          for (int n = 0; n < WarpColumns / 8; ++n) Format::multiply(sums_[m][n], left_words, right_words[n]);
        }
      }
#else
      for_each_place(thread, [&](int row, int column, int m, int n, int i) {
        for (int k = 0; k < words_deep; ++k) {
          sums_[m][n][i] += Format::product(a[k * a_stride + row], b[k * b_stride + column]);
        }
      });
#endif
    }
    template <class Visit>
    KOKKOS_FUNCTION void for_each(int thread, const Visit& visit) const {
      for_each_place(thread, [&](int row, int column, int m, int n, int i) { visit(row, column, sums_[m][n][i]); });
    }

   private:
    KOKKOS_FUNCTION static int first_row(int thread) {
      return thread / 32 / warps_in_row * WarpRows;
    }
    KOKKOS_FUNCTION static int first_column(int thread) {
      return thread / 32 % warps_in_row * WarpColumns;
    }
    template <class Visit>
    KOKKOS_FUNCTION static void for_each_place(int thread, const Visit& visit) {
      const int row = first_row(thread) + thread % 32 / 4, column = first_column(thread) + thread % 4 * 2;
      HALOGRAD_UNROLL
      for (int m = 0; m < WarpRows / 16; ++m) {
        HALOGRAD_UNROLL
        for (int n = 0; n < WarpColumns / 8; ++n) {
          HALOGRAD_UNROLL
          for (int i = 0; i < 4; ++i) visit(row + 16 * m + i / 2 * 8, column + 8 * n + i % 2, m, n, i);
        }
      }
    }

    float sums_[WarpRows / 16][WarpColumns / 8][4];
  };
};

}  // namespace halograd::device
