#pragma once

#include "kernels/device/matrix_instructions.hpp"

namespace halograd::device {

/// Matrix units: each warp has WarpRows x WarpColumns results and multiplies them by one instruction after the other. A
/// host computes each thread's results one by one, from the same rounded values.
template <class Instruction, int Rows, int Columns, int WarpRows, int WarpColumns, int WordsDeep = 16>
struct MatrixTile {
  using Value = float;
  using Word = typename Instruction::Word;
  static constexpr int values_in_word = Instruction::values_in_word;
  static constexpr int rows = Rows, columns = Columns, words_deep = WordsDeep, depth = words_deep * values_in_word;
  static constexpr int warps_in_row = Columns / WarpColumns;
  static constexpr int threads = Rows / WarpRows * warps_in_row * Instruction::threads;
  static_assert(WarpRows % Instruction::rows == 0 && WarpColumns % Instruction::columns == 0 && words_deep % 8 == 0);

  template <class... Values>
  KOKKOS_FUNCTION static Word word(Values... values) {
    return Instruction::word(values...);
  }

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
#if defined(__CUDA_ARCH__) || defined(HALOGRAD_MFMA)
      const int lane = thread % Instruction::threads;
      const Entry first_a = Instruction::a(lane, 0), first_b = Instruction::b(lane, 0);
      const Word* const left = a + first_a.column * a_stride + first_row(thread) + first_a.row;
      const Word* const right = b + first_b.row * b_stride + first_column(thread) + first_b.column;
      HALOGRAD_UNROLL
      for (int k = 0; k < words_deep; k += 8) {
        Word right_words[column_fragments][Instruction::b_words];
        HALOGRAD_UNROLL
        for (int n = 0; n < column_fragments; ++n) {
          HALOGRAD_UNROLL
          for (int word = 0; word < Instruction::b_words; ++word) {
            const Entry at = Instruction::b(0, word);
            right_words[n][word] = right[(k + at.row) * b_stride + n * Instruction::columns + at.column];
          }
        }
        HALOGRAD_UNROLL
        for (int m = 0; m < row_fragments; ++m) {
          Word left_words[Instruction::a_words];
          HALOGRAD_UNROLL
          for (int word = 0; word < Instruction::a_words; ++word) {
            const Entry at = Instruction::a(0, word);
            left_words[word] = left[(k + at.column) * a_stride + m * Instruction::rows + at.row];
          }
          HALOGRAD_UNROLL
          for (int n = 0; n < column_fragments; ++n) Instruction::multiply(sums_[m][n], left_words, right_words[n]);
        }
      }
#else
      const auto same = [](int row) { return row; };
      for_each_place(thread, same, [&](int row, int column, int m, int n, int i) {
        for (int k = 0; k < words_deep; ++k) {
          sums_[m][n][i] += Instruction::product(a[k * a_stride + row], b[k * b_stride + column]);
        }
      });
#endif
    }
    template <class OfRow, class Visit>
    KOKKOS_FUNCTION void for_each(int thread, const OfRow& of_row, const Visit& visit) const {
      for_each_place(thread, of_row,
                     [&](auto row, int column, int m, int n, int i) { visit(row, column, sums_[m][n][i]); });
    }

   private:
    static constexpr int row_fragments = WarpRows / Instruction::rows;
    static constexpr int column_fragments = WarpColumns / Instruction::columns;

    KOKKOS_FUNCTION static int first_row(int thread) {
      return thread / Instruction::threads / warps_in_row * WarpRows;
    }
    KOKKOS_FUNCTION static int first_column(int thread) {
      return thread / Instruction::threads % warps_in_row * WarpColumns;
    }
    template <class OfRow, class Visit>
    KOKKOS_FUNCTION static void for_each_place(int thread, const OfRow& of_row, const Visit& visit) {
      HALOGRAD_UNROLL
      for (int m = 0; m < row_fragments; ++m) {
        HALOGRAD_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Entry at = Instruction::c(thread % Instruction::threads, i);
          const auto row = of_row(first_row(thread) + m * Instruction::rows + at.row);
          HALOGRAD_UNROLL
          for (int n = 0; n < column_fragments; ++n) {
            visit(row, first_column(thread) + n * Instruction::columns + at.column, m, n, i);
          }
        }
      }
    }

    float sums_[row_fragments][column_fragments][4];
  };
};

}  // namespace halograd::device
