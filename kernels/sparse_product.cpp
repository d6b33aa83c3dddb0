#include "kernels/sparse_product.hpp"

#include <cmath>

#include "kernels/error.hpp"

#ifdef HALOGRAD_KOKKOS_KERNELS
#include <KokkosSparse_CrsMatrix.hpp>
#include <KokkosSparse_spmv.hpp>
#endif

namespace halograd {
namespace {

using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<long>>;

#ifdef HALOGRAD_KOKKOS_KERNELS
// Column by column, since spmv for all columns at once takes several times as long to compile.
void multiply(const ExecutionSpace& exec, const SparseMatrix& matrix, const Matrix& x, const Matrix& y) {
  using Crs = KokkosSparse::CrsMatrix<double, int, Matrix::device_type, void, int>;
  const int rows = static_cast<int>(matrix.row_begin.extent(0)) - 1;
  const Crs crs("mixing matrix", rows, rows, static_cast<int>(matrix.column.extent(0)), matrix.value, matrix.row_begin,
                matrix.column);
  exec.fence();  // spmv of Kokkos Kernels before 4.1 takes no execution space instance
  for (std::size_t k = 0; k < x.extent(1); ++k) {
    KokkosSparse::spmv("N", 1.0, crs, Kokkos::subview(x, Kokkos::ALL, k), 0.0, Kokkos::subview(y, Kokkos::ALL, k));
  }
}
#else
void multiply(const ExecutionSpace& exec, const SparseMatrix& matrix, const Matrix& x, const Matrix& y) {
  const auto row_begin = matrix.row_begin;
  const auto column = matrix.column;
  const auto value = matrix.value;
  const int columns = static_cast<int>(x.extent(1));
  const long rows = static_cast<long>(x.extent(0));
  Kokkos::parallel_for(
      "halograd::sparse_product", Range(exec, 0, rows), KOKKOS_LAMBDA(const long row) {
        for (int k = 0; k < columns; ++k) {
          double sum = 0;
          for (int entry = row_begin(row); entry < row_begin(row + 1); ++entry)
            sum += value(entry) * x(column(entry), k);
          y(row, k) = sum;
        }
      });
}
#endif

}  // namespace

void sparse_product(const ExecutionSpace& exec, const SparseMatrix& matrix, const Matrix& x, const Matrix& y) {
  HALOGRAD_REQUIRE(matrix.row_begin.extent(0) == x.extent(0) + 1 && x.extent(0) == y.extent(0) &&
                       x.extent(1) == y.extent(1) && matrix.column.extent(0) == matrix.value.extent(0),
                   "sparse_product: the matrix has ", matrix.row_begin.extent(0) - 1, " rows, x is (", x.extent(0),
                   ", ", x.extent(1), "), y is (", y.extent(0), ", ", y.extent(1), ")");
  multiply(exec, matrix, x, y);
}

const char* sparse_product_maker() {
#ifdef HALOGRAD_KOKKOS_KERNELS
  return "Kokkos Kernels";
#else
  return "a plain kernel, built without Kokkos Kernels";
#endif
}

double norm_by_last(const ExecutionSpace& exec, const Matrix& matrix) {
  const int last = static_cast<int>(matrix.extent(1)) - 1;
  double sum = 0;
  Kokkos::parallel_reduce(
      "halograd::norm_by_last", Range(exec, 0, static_cast<long>(matrix.extent(0))),
      KOKKOS_LAMBDA(const long row, double& partial) {
        for (int k = 0; k < last; ++k) {
          const double value = matrix(row, k) / matrix(row, last);
          partial += value * value;
        }
      },
      sum);
  return std::sqrt(sum);
}

void subtract_column_means(const ExecutionSpace& exec, const Matrix& matrix) {
  const auto rows = static_cast<long>(matrix.extent(0));
  Kokkos::parallel_for(
      "halograd::subtract_column_means", Range(exec, 0, static_cast<long>(matrix.extent(1))),
      KOKKOS_LAMBDA(const long k) {
        double sum = 0;
        for (long row = 0; row < rows; ++row) sum += matrix(row, k);
        for (long row = 0; row < rows; ++row) matrix(row, k) -= sum / static_cast<double>(rows);
      });
}

}  // namespace halograd
