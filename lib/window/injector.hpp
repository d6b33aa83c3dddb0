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
  [[nodiscard]] std::int64_t latency_nanoseconds() const {
    return static_cast<std::int64_t>(1000 * config_.latency_us);
  }

 private:
  InjectConfig config_;
};

}  // namespace halograd
