#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/metrics.hpp"
#include "support/progress.hpp"

namespace halograd {

/// Lines of the start table: what, value.
using StartFacts = std::vector<std::pair<std::string, std::string>>;

/// One epoch over all ranks.
struct EpochSummary {
  std::int64_t epoch = 0, epochs = 0;  ///< done, of all
  double train_loss = 0, mean_model_loss = 0;
  std::string metric;                          ///< what the scores are
  double score_lowest = 0, score_highest = 0;  ///< over the replicas
  double mean_model_score = 0, consensus_distance = 0;
  double images = 0;            ///< trained on
  double training_seconds = 0;  ///< without evaluation, of the slowest rank
  double wait_share = 0;        ///< of the ranks' time in steps, spent waiting for others
  double seconds = 0;           ///< with evaluation
};

/// What a training ends with. Of a group at a free pace its first rank alone knows what epochs came to.
struct TrainingResult {
  std::int64_t epochs = 0, steps = 0;  ///< done in all
  double seconds = 0;                  ///< of this call's epochs, evaluation included
  double images_per_second = 0;        ///< of this call's training steps, over all ranks
  double wait_share = 0;               ///< over this call's epochs
  double bytes_sent = 0;               ///< a rank and step, on average over this call
  std::int64_t skipped = 0;            ///< updates that ranks left out in this call: loss or gradient not finite
  EpochSummary last;
  std::string stopped;                      ///< by what, where the training is to be resumed; else empty
  std::string checkpoint, metrics, config;  ///< files; no checkpoint where none is to be kept
};

/// What rank 0 tells its user on standard output: a progress bar on a terminal, plain lines elsewhere. Other ranks'
/// reports are silent.
class Report {
 public:
  /// `print_steps`: without a terminal, steps between two lines; 0: none.
  /// `metric`: what the scores are (metric_of).
  Report(bool silent, int print_steps, std::string metric = "accuracy");

  void start(const std::string& title, const StartFacts& facts) const;
  void line(const std::string& text);
  /// `done`: steps of it that an earlier call has done.
  void epoch_begins(std::int64_t epoch, std::int64_t epochs, std::int64_t steps, std::int64_t done);
  /// After each step; `images` of all ranks.
  void step(std::int64_t step_in_epoch, double loss, int images);
  void epoch_ends(const EpochSummary& summary);
  void end(const TrainingResult& result) const;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double seconds_left(double share_done) const;

  std::string metric_;
  bool silent_;
  int print_steps_;
  ProgressLine progress_;
  bool header_printed_ = false;
  std::int64_t epoch_ = 0, epochs_ = 0, steps_ = 0;
  double images_ = 0;
  double first_ = -1;  ///< epochs done when this call began, a part of one included
  Clock::time_point begin_, epoch_begin_;
};

/// The table that training prints: its heading, and an epoch's row.
std::string epoch_heading(const std::string& metric);
std::string epoch_row(const EpochSummary& summary);
/// A score without its unit: accuracy and intersection over union in per cent, an error as it is.
std::string score_text(const std::string& metric, double score);

}  // namespace halograd
