#pragma once

#include "kernels/compat.hpp"
#include "kernels/types.hpp"

/// How the threads of a team multiply two panels in shared memory and hold their part of a tile's results. A tile has
///
///   using Value;  static constexpr int rows, columns, depth (of a panel), threads
///   using Word;   static constexpr int values_in_word      what a panel holds: one or two values along the depth
///   static Word word(value...)                             of so many values
///   class Results                                          of one thread
///     void multiply<a_stride, b_stride>(thread, a, b)      adds A B, of panels (depth / values_in_word, stride)
///     void for_each(thread, of_row, visit) const           visit(of_row(row), column, sum), in the tile
namespace halograd::device {

/// Values that are loaded and stored at once.
template <class T, int count>
struct alignas(count * sizeof(T)) Together {
  T value[count];
  KOKKOS_FUNCTION void load(const T* from) { *this = *reinterpret_cast<const Together*>(from); }
  KOKKOS_FUNCTION void store(T* to) const { *reinterpret_cast<Together*>(to) = *this; }
};
template <class T>
using Quad = Together<T, 4>;

/// Four at a time where `count` is a multiple of four: `to` then begins a quad.
template <class T, int count>
KOKKOS_INLINE_FUNCTION void store_quads(const T (&values)[count], T* to) {
  constexpr int together = count % 4 == 0 ? 4 : 1;
  HALOGRAD_UNROLL
  for (int i = 0; i < count; i += together) {
    Together<T, together> values_here;
    for (int j = 0; j < together; ++j) values_here.value[j] = values[i + j];
    values_here.store(to + i);
  }
}

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

  KOKKOS_FUNCTION static T word(T value) { return value; }

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
    template <class OfRow, class Visit>
    KOKKOS_FUNCTION void for_each(int thread, const OfRow& of_row, const Visit& visit) const {
      HALOGRAD_UNROLL
      for (int i = 0; i < ThreadRows; ++i) {
        const auto row = of_row(spread<Rows, ThreadRows>(thread / threads_in_row, i));
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

}  // namespace halograd::device
