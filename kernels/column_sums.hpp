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

/// A host's work item is a block, an accelerator's one channel of it. Terms::add_row(row, first, count, sums, pitch)
/// adds what `count` channels of a row, from `first` on, give to Terms::sums rows of numbers, `pitch` apart.
template <class Terms>
struct ColumnSums {
  Terms terms;
  long rows, length;
  int channels;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    if constexpr (runs_on_host) {
      double* const sums = workspace + item * Terms::sums * channels;
      for (int i = 0; i < Terms::sums * channels; ++i) sums[i] = 0;
      add_rows(item, 0, channels, sums, channels);
    } else {  // in registers
      const Divided at(item, channels);
      double sums[Terms::sums] = {};
      add_rows(at.quotient, at.rest, 1, sums, 1);
      for (int i = 0; i < Terms::sums; ++i) {
        workspace[(at.quotient * Terms::sums + i) * channels + at.rest] = sums[i];
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void add_rows(long block, int first, int count, double* sums, int pitch) const {
    const long end = (block + 1) * length < rows ? (block + 1) * length : rows;
    for (long row = block * length; row < end; ++row) terms.add_row(row, first, count, sums, pitch);
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

/// Joins what blocks left of columns. Join::gather(column, sum) returns what it makes of sum(term), the sum of
/// term(block) over all blocks, and Join::finish(column, gathered) keeps it. A host's work item is a column; on an
/// accelerator a team's threads share its blocks, and their sums are added in a fixed order.
template <class Join>
struct JoinedBlocks {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Team = typename Policy::member_type;
  Join join;
  long blocks;

  struct Alone {
    long blocks;
    template <class Term>
    KOKKOS_FUNCTION double operator()(const Term& term) const {
      double sum = 0;
      for (long block = 0; block < blocks; ++block) sum += term(block);
      return sum;
    }
  };
  struct Together {
    const Team& team;
    long blocks;
    template <class Term>
    KOKKOS_FUNCTION double operator()(const Term& term) const {
      double sum = 0;
      Kokkos::parallel_reduce(
          Kokkos::TeamThreadRange(team, blocks), [&](const long block, double& part) { part += term(block); }, sum);
      return sum;
    }
  };

  KOKKOS_FUNCTION void operator()(const long column) const { join.finish(column, join.gather(column, Alone{blocks})); }
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const auto gathered = join.gather(team.league_rank(), Together{team, blocks});
    Kokkos::single(Kokkos::PerTeam(team), [&] { join.finish(team.league_rank(), gathered); });
  }
};

/// `name`: a literal. Many columns keep an accelerator busy without teams.
template <class Join>
void join_blocks(const ExecutionSpace& exec, const char* name, long columns, long blocks, const Join& join) {
  const JoinedBlocks<Join> joined{join, blocks};
  constexpr long many_columns = 65536;
  if (runs_on_host || blocks < 8 || columns > many_columns) {
    Kokkos::parallel_for(label(name), FlatRange(exec, 0, columns), joined);
  } else {
    const int threads = blocks > 64 ? 128 : 32;
    Kokkos::parallel_for(label(name), typename JoinedBlocks<Join>::Policy(exec, static_cast<int>(columns), threads),
                         joined);
  }
}

/// The sums of column_sums, or such whose blocks are so many doubles apart, for join_blocks: finish(column, sums) is
/// the rest of a Join.
template <int count>
struct BlockSums {
  const double* workspace;
  int channels;
  long pitch = static_cast<long>(count) * channels;
  struct Gathered {
    double sums[count];
  };
  template <class Sum>
  KOKKOS_FUNCTION Gathered gather(long column, const Sum& sum) const {
    Gathered gathered;
    for (int i = 0; i < count; ++i) {
      const double* const from = workspace + i * channels + column;
      const long apart = pitch;
      gathered.sums[i] = sum([=](long block) { return from[block * apart]; });
    }
    return gathered;
  }
};

}  // namespace halograd
