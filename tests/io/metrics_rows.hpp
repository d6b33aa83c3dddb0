#pragma once

#include <cstdint>

#include "io/metrics.hpp"
#include "tests/io/mpi_helpers.hpp"

namespace halograd::test {

inline constexpr int steps_in_epoch = 5;

/// Rows in which every quantity differs, by step or epoch and, where it may, by rank.
inline StepMetrics step_row(std::int64_t step, int rank) {
  const auto value = [&](int quantity) { return quantity + 0.01 * static_cast<double>(step) + 1000.0 * rank; };
  StepMetrics row{value(1), value(2), value(3),
                  value(4), value(5), value(6),
                  value(7), value(8), (std::int64_t{1} << 40) + step * 100 + rank};
  row.samples = 1000 * step + rank;
  row.rank = rank;
  return row;
}

inline EpochMetrics epoch_row(std::int64_t epoch, int rank) {
  const auto value = [&](int quantity) { return quantity + 0.01 * static_cast<double>(epoch); };
  EpochMetrics row{.train_loss = value(1) + rank, .test_loss = value(2) + rank, .test_score = value(3) + rank};
  row.mean_model_loss = value(4);
  row.mean_model_score = value(5);
  row.consensus_distance = value(6);
  row.seconds = value(7);
  row.steps = (epoch + 1) * steps_in_epoch;
  row.images = 100 * (epoch + 1) + rank;
  row.evaluation_seconds = value(8) + rank;
  row.wait_seconds = value(9) + rank;
  return row;
}

inline void write_epochs(MetricsFile& file, std::int64_t first, std::int64_t last) {
  for (std::int64_t epoch = first; epoch < last; ++epoch) {
    for (int step = 0; step < steps_in_epoch; ++step) file.add_step(step_row(epoch * steps_in_epoch + step, rank_of()));
    file.add_epoch(epoch_row(epoch, rank_of()));
  }
}

}  // namespace halograd::test
