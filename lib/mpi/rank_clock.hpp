#pragma once

#include <chrono>
#include <cstdint>

#include "mpi/communicator.hpp"

namespace halograd {

/// Nanoseconds of this node's monotonic clock, which all its processes share.
inline std::int64_t node_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Collective. What to add to `clock` here to get rank 0's: by round trips with rank 0, of which the shortest counts
/// (Cristian 1989), so that the error is at most half of that one.
std::int64_t clock_offset(const Communicator& comm, std::int64_t (*clock)());

/// A clock that all ranks of a communicator share: rank 0's monotonic one. On rank 0's node it is the node's own;
/// elsewhere that one moved by an offset that is measured once, by one rank per node.
class RankClock {
 public:
  /// Collective; measures once per communicator.
  explicit RankClock(const Communicator& comm);
  [[nodiscard]] std::int64_t now() const { return node_clock() + offset_; }
  /// From the node's clock to this one.
  [[nodiscard]] std::int64_t offset() const { return offset_; }

 private:
  std::int64_t offset_ = 0;
};

}  // namespace halograd
