#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace halograd {

/// A metrics file in memory. A column of /step is (steps, ranks), of /epoch (epochs, ranks) or (epochs), row after row.
struct MetricsTable {
  int ranks = 0;
  std::string metric;  ///< what the scores are: test_accuracy has it in its name
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::map<std::string, std::vector<double>> columns;  ///< by path, for example "/step/loss"
};

/// Reads a whole metrics file, also one that is being written by another process or was left open by one that died: it
/// then has the rows that are there in all columns. Throws Error where the file is no metrics file of this program, or
/// damaged.
MetricsTable read_metrics(const std::string& path);

}  // namespace halograd
