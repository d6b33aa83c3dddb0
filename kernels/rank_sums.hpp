#pragma once

#include <functional>

#include "kernels/types.hpp"

namespace halograd {

/// Where the rows of a batch are divided among ranks: replaces numbers by their sums over these ranks, the same bits on
/// all of them. Collective.
using AddOverRanks = std::function<void(const ExecutionSpace&, Vector<double>)>;

/// The rows of all ranks, where a kernel is given only some of them.
struct AllRows {
  long rows = 0;       ///< of all ranks
  AddOverRanks add{};  ///< empty: this rank has all rows
  [[nodiscard]] bool elsewhere() const { return static_cast<bool>(add); }
  /// How many rows there are, of which this rank has `own`.
  [[nodiscard]] long count(long own) const { return elsewhere() ? rows : own; }
};

}  // namespace halograd
