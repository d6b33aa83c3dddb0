#pragma once

#include <cstdint>

#include "config/comm_config.hpp"

namespace halograd {

/// What goes wrong on purpose ([comm.inject]), the same in every run. Times are nanoseconds on any clock. Not
/// thread-safe.
class Injector {
 public:
  Injector() = default;
  explicit Injector(const InjectConfig& config) : config_(config) {}

  /// After `seconds` of computing: sleeps until it has taken compute_us, and on the slow rank slow_factor times
  /// as long. A rank that sleeps takes nothing from the others of its node.
  void slow_down(int rank, double seconds) const;
  /// Whether the halo of this version, from `writer` to `reader`, is lost: a fixed function of the seed and these.
  [[nodiscard]] bool drops(int writer, int reader, std::int64_t version) const;
  /// The time at which a message of `bytes` that is sent now has left this rank: after those before it, since they
  /// share the rank's bandwidth.
  std::int64_t leaves(std::int64_t now, std::int64_t bytes);
  /// The time at which it arrives.
  std::int64_t arrives(std::int64_t now, std::int64_t bytes);
  /// The time at which an all-reduce that begins now is complete, if it goes round a ring of `ranks` ranks, each of
  /// which sends `bytes` in all, in 2 (ranks - 1) messages that follow each other.
  std::int64_t ring_arrives(std::int64_t now, int ranks, std::int64_t bytes);
  /// The time at which the last message has left.
  [[nodiscard]] std::int64_t all_left() const { return all_left_; }

 private:
  InjectConfig config_;
  std::int64_t all_left_ = 0;
};

}  // namespace halograd
