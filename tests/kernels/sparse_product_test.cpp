#include "kernels/sparse_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd::sparse_product_test {
namespace {

struct Entry {
  int row, column;
  double value;
};

/// About `share` of all entries of a (rows, rows) matrix, by rows; some rows are empty.
std::vector<Entry> random_entries(int rows, double share) {
  std::vector<Entry> entries;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < rows; ++j) {
      const auto at = static_cast<std::uint64_t>(i) * 1000 + static_cast<std::uint64_t>(j);
      if (i % 5 != 3 && random_uniform(1, at) < share) entries.push_back({i, j, random_uniform(2, at) - 0.5});
    }
  }
  return entries;
}

SparseMatrix compressed(int rows, const std::vector<Entry>& entries) {
  const SparseMatrix matrix{Buffer<int>("row_begin", rows + 1), Buffer<int>("column", entries.size()),
                            Buffer<double>("value", entries.size())};
  const auto row_begin = Kokkos::create_mirror_view(matrix.row_begin);
  const auto column = Kokkos::create_mirror_view(matrix.column);
  const auto value = Kokkos::create_mirror_view(matrix.value);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    column(k) = entries[k].column;
    value(k) = entries[k].value;
    for (int row = entries[k].row; row < rows; ++row) row_begin(row + 1) = static_cast<int>(k) + 1;
  }
  Kokkos::deep_copy(matrix.row_begin, row_begin);
  Kokkos::deep_copy(matrix.column, column);
  Kokkos::deep_copy(matrix.value, value);
  return matrix;
}

Matrix numbers(int rows, int columns, std::uint64_t key) {
  const Matrix matrix("numbers", rows, columns);
  const auto host = Kokkos::create_mirror_view(matrix);
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < columns; ++k) {
      host(i, k) = random_uniform(key, static_cast<std::uint64_t>(i * columns + k)) - 0.5;
    }
  }
  Kokkos::deep_copy(matrix, host);
  return matrix;
}

TEST(SparseProduct, AgreesWithALoopOverTheEntries) {
  for (const int rows : {1, 7, 100}) {
    for (const int columns : {1, 3, 8, 33}) {
      const std::vector<Entry> entries = random_entries(rows, 0.2);
      const Matrix x = numbers(rows, columns, 3), y = numbers(rows, columns, 4);  // y: what is overwritten
      const auto from = Kokkos::create_mirror_view(x);
      Kokkos::deep_copy(from, x);
      std::vector<double> expected(static_cast<std::size_t>(rows * columns), 0.0);
      for (const Entry& entry : entries) {
        for (int k = 0; k < columns; ++k) {
          expected[static_cast<std::size_t>(entry.row * columns + k)] += entry.value * from(entry.column, k);
        }
      }
      sparse_product(ExecutionSpace(), compressed(rows, entries), x, y);
      const auto got = Kokkos::create_mirror_view(y);
      Kokkos::deep_copy(got, y);
      for (int i = 0; i < rows; ++i) {
        for (int k = 0; k < columns; ++k) {
          ASSERT_NEAR(got(i, k), expected[static_cast<std::size_t>(i * columns + k)], 1e-13) << rows << " " << columns;
        }
      }
    }
  }
}

TEST(SparseProduct, RefusesShapesThatDoNotFit) {
  const SparseMatrix matrix = compressed(3, {{0, 0, 1.0}});
  EXPECT_THROW(sparse_product(ExecutionSpace(), matrix, numbers(4, 2, 1), numbers(4, 2, 1)), Error);
  EXPECT_THROW(sparse_product(ExecutionSpace(), matrix, numbers(3, 2, 1), numbers(3, 1, 1)), Error);
}

TEST(NormByLast, OfACenteredMatrix) {
  const Matrix matrix = numbers(50, 4, 9);
  const auto host = Kokkos::create_mirror_view(matrix);
  Kokkos::deep_copy(host, matrix);
  double squares = 0;
  for (int k = 0; k < 3; ++k) {
    double mean = 0;
    for (int i = 0; i < 50; ++i) mean += host(i, k) / 50;
    for (int i = 0; i < 50; ++i) squares += (host(i, k) - mean) * (host(i, k) - mean) / ((1.0 + i) * (1.0 + i));
  }
  subtract_column_means(ExecutionSpace(), matrix);
  Kokkos::deep_copy(host, matrix);
  for (int i = 0; i < 50; ++i) host(i, 3) = 1.0 + i;
  Kokkos::deep_copy(matrix, host);
  EXPECT_NEAR(norm_by_last(ExecutionSpace(), matrix), std::sqrt(squares), 1e-12);
}

}  // namespace
}  // namespace halograd::sparse_product_test
