#pragma once

#include <vector>

#include "train/benchmark.hpp"

namespace halograd {

/// How `halograd benchmark` shows its results.
struct BenchmarkTable {
  int threads = 0;
  double fma_peak = 0;   ///< operations a second, of all threads
  double bandwidth = 0;  ///< bytes per second

  void print(const BenchmarkResult& result) const;
  void print_json(const std::vector<BenchmarkResult>& results) const;
};

}  // namespace halograd
