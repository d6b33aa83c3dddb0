#pragma once

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

/// Sums over the rows of a tensor (rows, C), for each channel, in double: each of column_blocks(rows) blocks of rows
/// leaves its own in the workspace (blocks, sums, C). The partition depends on the shape alone: the same bits for any
/// number of threads.
constexpr long most_column_blocks = runs_on_host ? 256 : 1024;

/// The blocks that hold rows, each of as many but the last.
KOKKOS_INLINE_FUNCTION long column_blocks(long rows) {
  const long length = (rows + most_column_blocks - 1) / most_column_blocks;
  return length == 0 ? 0 : (rows + length - 1) / length;
}

/// The doubles of scratch for up to `rows` rows.
inline std::size_t column_sums_workspace(long rows, int channels, int sums) {
  const long blocks = rows < most_column_blocks ? rows : most_column_blocks;
  return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(channels) * static_cast<std::size_t>(sums);
}

/// A host's work item is a block, an accelerator's one channel of it. Terms::add_row(row, first, last, sums) adds what
/// channels [first, last) of a row give to Terms::sums rows of numbers (sums, C).
template <class Terms>
struct ColumnSums {
  Terms terms;
  long rows, length;
  int channels;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const long block = runs_on_host ? item : item / channels;
    const int first = runs_on_host ? 0 : static_cast<int>(item % channels);
    const int last = runs_on_host ? channels : first + 1;
    const long end = (block + 1) * length < rows ? (block + 1) * length : rows;
    double* const sums = workspace + block * Terms::sums * channels;
    for (int i = 0; i < Terms::sums; ++i) {
      for (int c = first; c < last; ++c) sums[i * channels + c] = 0;
    }
    for (long row = block * length; row < end; ++row) terms.add_row(row, first, last, sums);
  }
};

template <class Terms>
void column_sums(const ExecutionSpace& exec, const char* name, long rows, int channels, const Terms& terms,
                 const Vector<double>& workspace) {
  const std::size_t needed = column_sums_workspace(rows, channels, Terms::sums);
  HALOGRAD_REQUIRE(workspace.extent(0) >= needed, name, ": the workspace has ", workspace.extent(0), " doubles, ",
                   needed, " are needed");
  const long length = (rows + most_column_blocks - 1) / most_column_blocks;
  const long blocks = column_blocks(rows);
  Kokkos::parallel_for(label(name), FlatRange(exec, 0, runs_on_host ? blocks : blocks * channels),
                       ColumnSums<Terms>{terms, rows, length, channels, workspace.data()});
}

/// One of a block's sums over all blocks; `width` is sums C, `entry` sum C + channel.
KOKKOS_INLINE_FUNCTION double sum_of_blocks(const double* workspace, long blocks, long width, long entry) {
  double sum = 0;
  for (long block = 0; block < blocks; ++block) sum += workspace[block * width + entry];
  return sum;
}

}  // namespace halograd
