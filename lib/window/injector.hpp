#pragma once

#include <cstdint>

#include "config/comm_config.hpp"

namespace halograd {

/// What goes wrong on purpose ([comm.inject]), the same in every run.
class Injector {
 public:
  Injector() = default;
  explicit Injector(const InjectConfig& config) : config_(config) {}

  /// After `seconds` of computing: sleeps until it has taken compute_us, and on the slow rank slow_factor times
  /// as long. It sleeps, so that the other ranks of its node lose nothing by it.
  void slow_down(int rank, double seconds) const;
  /// Whether the halo of this version, from `writer` to `reader`, is lost: a fixed function of the seed and these.
  [[nodiscard]] bool drops(int writer, int reader, std::int64_t version) const;
  /// Nanoseconds on any clock: when a message that is sent now has left this rank, after those before it, which share
  /// its bandwidth.
  std::int64_t leaves(std::int64_t now, std::int64_t bytes);
  /// When it arrives.
  std::int64_t arrives(std::int64_t now, std::int64_t bytes);
  /// When a ring all-reduce of `ranks` ranks is complete, of which each sends so many bytes in 2 (ranks - 1) messages
  /// that follow each other.
  std::int64_t ring_arrives(std::int64_t now, int ranks, std::int64_t bytes);
  /// When the last message has left.
  [[nodiscard]] std::int64_t all_left() const { return all_left_; }

 private:
  InjectConfig config_;
  std::int64_t all_left_ = 0;
};

}  // namespace halograd
