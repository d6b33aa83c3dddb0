#include "train/report.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "nn/losses.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string score_range(const EpochSummary& summary) {
  return score_text(summary.metric, summary.score_lowest) + "-" + score_text(summary.metric, summary.score_highest);
}

/// "91.23 % of the test set", "IoU 91.23 %", "error 0.123"
std::string score_words(const EpochSummary& summary, const std::string& score) {
  const Metric& metric = row_of(metrics(), summary.metric, "metric");
  const std::string word = *metric.word;
  return (word.empty() ? "" : word + " ") + score + (metric.per_cent ? " %" : "");
}

}  // namespace

std::string score_text(const std::string& metric, double score) {
  return row_of(metrics(), metric, "metric").per_cent ? format("%.2f", 100 * score) : format("%.4g", score);
}

std::string epoch_heading(const std::string& metric) {
  const Metric& row = row_of(metrics(), metric, "metric");
  const std::string word = *row.word, of = (word.empty() ? "" : " " + word) + (row.per_cent ? " %" : "");
  return format("%8s %11s %10s %15s %11s %12s %9s %6s %8s", "epoch", "train loss", "mean loss",
                ("replicas" + of).c_str(), ("mean" + of).c_str(), "consensus", "images/s", "wait", "time");
}

std::string epoch_row(const EpochSummary& summary) {
  const std::string number = format("%ld/%ld", static_cast<long>(summary.epoch), static_cast<long>(summary.epochs));
  return format("%8s %11.4f %10.4f %15s %11s %12.4g %9.0f %5.1f%% %8s", number.c_str(), summary.train_loss,
                summary.mean_model_loss, score_range(summary).c_str(),
                score_text(summary.metric, summary.mean_model_score).c_str(), summary.consensus_distance,
                summary.images / summary.training_seconds, 100 * summary.wait_share,
                human_time(summary.seconds).c_str());
}

Report::Report(bool silent, int print_steps, std::string metric)
    : metric_(std::move(metric)),
      silent_(silent),
      print_steps_(print_steps),
      progress_(!silent),
      begin_(Clock::now()) {}

void Report::start(const std::string& title, const StartFacts& facts) const {
  if (silent_) return;
  std::printf("%s\n", title.c_str());
  std::size_t width = 0;
  for (const auto& fact : facts) width = std::max(width, fact.first.size());
  for (const auto& [what, value] : facts)
    std::printf("  %-*s  %s\n", static_cast<int>(width), what.c_str(), value.c_str());
  std::fflush(stdout);
}

void Report::line(const std::string& text) {
  if (silent_) return;
  progress_.clear();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Report::epoch_begins(std::int64_t epoch, std::int64_t epochs, std::int64_t steps, std::int64_t done) {
  epoch_ = epoch;
  epochs_ = epochs;
  steps_ = steps;
  images_ = 0;
  epoch_begin_ = Clock::now();
  if (first_ < 0) {
    first_ = static_cast<double>(epoch) + static_cast<double>(done) / static_cast<double>(steps);
    begin_ = epoch_begin_;
  }
  if (silent_ || header_printed_) return;
  header_printed_ = true;
  std::printf("%s\n", epoch_heading(metric_).c_str());
  std::fflush(stdout);
}

double Report::seconds_left(double share_done) const {
  const double done = static_cast<double>(epoch_) + share_done - first_;
  const double all = static_cast<double>(epochs_) - first_;
  return done > 0 ? seconds_between(begin_, Clock::now()) * (all - done) / done : 0;
}

void Report::step(std::int64_t step_in_epoch, double loss, int images) {
  images_ += images;
  if (silent_) return;
  const Clock::time_point now = Clock::now();
  const double rate = images_ / std::max(1e-9, seconds_between(epoch_begin_, now));
  const double share = static_cast<double>(step_in_epoch) / static_cast<double>(steps_);
  if (progress_.on_terminal()) {
    if (progress_.too_soon() && step_in_epoch < steps_) return;
    progress_.draw(format("epoch %ld/%ld %s %3.0f %%  loss %.4f  %.0f images/s  %s left", static_cast<long>(epoch_ + 1),
                          static_cast<long>(epochs_), bar(share).c_str(), 100 * share, loss, rate,
                          human_time(seconds_left(share)).c_str()));
  } else if (print_steps_ > 0 && step_in_epoch % print_steps_ == 0 && step_in_epoch < steps_) {
    std::printf("  epoch %ld/%ld step %ld/%ld loss %.4f, %.0f images/s, %s left\n", static_cast<long>(epoch_ + 1),
                static_cast<long>(epochs_), static_cast<long>(step_in_epoch), static_cast<long>(steps_), loss, rate,
                human_time(seconds_left(share)).c_str());
    std::fflush(stdout);
  }
}

void Report::epoch_ends(const EpochSummary& summary) {
  if (silent_) return;
  progress_.clear();
  std::printf("%s\n", epoch_row(summary).c_str());
  std::fflush(stdout);
}

void Report::end(const TrainingResult& result) const {
  if (silent_) return;
  StartFacts facts{
      {"epochs", format("%ld (%ld steps)", static_cast<long>(result.epochs), static_cast<long>(result.steps))},
      {"mean model",
       score_words(result.last, score_text(result.last.metric, result.last.mean_model_score)) + " of the test set"},
      {"replicas", score_words(result.last, score_range(result.last))},
      {"consensus distance", format("%.4g", result.last.consensus_distance)},
      {"time", human_time(result.seconds) + format(", %.0f images/s while training", result.images_per_second)},
      {"waiting for others", format("%.1f %% of the ranks' time", 100 * result.wait_share)},
      {"sent", human_bytes(result.bytes_sent) + " per rank and step"},
      {"checkpoint", result.checkpoint.empty() ? "none (output.checkpoint_epochs = 0)" : result.checkpoint},
      {"metrics", result.metrics},
      {"resolved run file", result.config}};
  if (result.skipped > 0) {
    facts.emplace_back("skipped",
                       format("%ld updates whose loss or gradient was not finite", static_cast<long>(result.skipped)));
  }
  start("Done", facts);
}

}  // namespace halograd
