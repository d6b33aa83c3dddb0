#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/metrics_read.hpp"
#include "train/report.hpp"

namespace halograd {

/// What a run has come to, from its metrics.
struct RunView {
  std::string name;
  int ranks = 0;
  std::int64_t epochs = 0, epochs_wanted = 0;  ///< done, of all
  std::int64_t steps = 0;                      ///< done
  std::int64_t steps_wanted = 0;               ///< of the whole run; 0 before the first epoch tells
  bool writer = false;                         ///< the file is open for writing

  // of the last epoch; NaN before its end
  double train_loss = 0, mean_model_loss = 0, mean_model_score = 0, score_lowest = 0, score_highest = 0;
  std::string metric;  ///< what the scores are
  double consensus_distance = 0;
  double seconds_left = 0;  ///< at the pace of the last epochs; NaN before the first one's end

  // of the last steps
  double images_per_second = 0;  ///< of all ranks
  double wait_share = 0, data_share = 0;
  double fastest = 0, slowest = 0;  ///< mean seconds of computing a step, over ranks
  int slowest_rank = 0;
  std::vector<double> epoch_losses;  ///< mean over ranks, every epoch
  std::vector<double> step_losses;   ///< the last ones

  [[nodiscard]] bool finished() const { return epochs_wanted > 0 && epochs >= epochs_wanted; }
};

/// `metrics` may hold the last rows of /step alone.
RunView view_of(const std::string& name, const MetricsTable& metrics, std::int64_t epochs_wanted);

/// The values as a line of at most `width` bars of eight heights, the lowest value being the lowest bar; several values
/// a bar are averaged, and where that is not finite is a gap. Without `blocks` in characters that every terminal has.
std::string sparkline(const std::vector<double>& values, std::size_t width, bool blocks);

/// The whole view: some lines, at most about 80 characters wide.
std::string screen(const RunView& view, bool blocks);

/// One epoch, counted from 0, as training reported it.
EpochSummary epoch_summary(const MetricsTable& metrics, std::int64_t epoch, std::int64_t epochs_wanted);

}  // namespace halograd
