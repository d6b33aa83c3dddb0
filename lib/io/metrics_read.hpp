#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace halograd {

/// A metrics file in memory. A column of /step is (steps - first_step, ranks), of /epoch (epochs, ranks) or (epochs),
/// row after row.
struct MetricsTable {
  int ranks = 0;
  std::string metric;  ///< what the scores are: test_accuracy has it in its name
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t first_step = 0;  ///< the step of the first row that the columns of /step have here
  std::map<std::string, std::vector<double>> columns;  ///< by path, for example "/step/loss"
};

/// A row of /step and one of /epoch.
struct MetricsRows {
  std::int64_t steps = std::numeric_limits<std::int64_t>::max(), epochs = std::numeric_limits<std::int64_t>::max();
};

/// Reads a whole metrics file, also one that is being written by another process or was left open by one that died: it
/// then has the rows that are there in all columns. Throws Error where the file is no metrics file of this program, or
/// damaged. Of /step it reads no more than the last `most_steps` rows, and nothing from `end` on, where a power cut may
/// have left rows that cannot be read.
MetricsTable read_metrics(const std::string& path, std::int64_t most_steps = std::numeric_limits<std::int64_t>::max(),
                          const MetricsRows& end = {});

/// Whether a metrics file is open for writing, or was when its writer died: HDF5 keeps this in the file's first bytes.
/// Throws Error where the file cannot be read.
bool has_writer(const std::string& path);

}  // namespace halograd
