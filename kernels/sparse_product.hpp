#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// A square sparse matrix in compressed rows: row i has the entries row_begin(i) to row_begin(i + 1) - 1.
struct SparseMatrix {
  Buffer<int> row_begin;  ///< (rows + 1)
  Buffer<int> column;     ///< (entries)
  Buffer<double> value;   ///< (entries)
};

/// (rows, columns), column major.
using Matrix = Kokkos::View<double**, Kokkos::LayoutLeft, MemorySpace>;

/// y = A x: by KokkosSparse::spmv where halograd is built with Kokkos Kernels, else by a plain kernel. Throws Error
/// where the shapes differ.
void sparse_product(const ExecutionSpace& exec, const SparseMatrix& matrix, const Matrix& x, const Matrix& y);

/// What sparse_product is made of: "Kokkos Kernels" or "a plain kernel, built without Kokkos Kernels".
const char* sparse_product_maker();

/// The square root of the sum of all squares, each row divided by its last value, which does not count itself.
double norm_by_last(const ExecutionSpace& exec, const Matrix& matrix);

/// Subtracts from each column its mean.
void subtract_column_means(const ExecutionSpace& exec, const Matrix& matrix);

}  // namespace halograd
