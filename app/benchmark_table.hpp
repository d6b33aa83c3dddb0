#pragma once

#include <vector>

#include "train/benchmark.hpp"

namespace halograd {

/// How `halograd benchmark` shows its results.
struct BenchmarkTable {
  int threads = 0;
  double fma_peak = 0;   ///< operations a second, of all threads
  double bf16_peak = 0;  ///< the same of products of bf16 values; 0 where cores have nothing faster for them
  double bandwidth = 0;  ///< bytes per second

  /// The one of the two that a network is held against: bf16_peak if it multiplied bf16 values.
  [[nodiscard]] double peak(const BenchmarkResult& result) const;
  void print(const BenchmarkResult& result) const;
  void print_json(const std::vector<BenchmarkResult>& results) const;
};

}  // namespace halograd
