#include "app/watch_view.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "nn/losses.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t recent_epochs = 3;   // whose pace tells the time left
constexpr std::int64_t recent_steps = 128;  // whose speed and waits are shown
constexpr std::size_t bars = 60;
constexpr const char* indent = "            ";

const std::vector<double>& column(const MetricsTable& metrics, std::string_view path) {
  return metrics.columns.at(std::string(path));
}

double sum(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(begin),
                         values.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
}

/// A row's values of the ranks that there were: others have NaN.
std::vector<double> row_values(const std::vector<double>& values, std::int64_t row, int ranks) {
  std::vector<double> present;
  for (std::int64_t at = row * ranks; at < (row + 1) * ranks; ++at) {
    if (!std::isnan(values[static_cast<std::size_t>(at)])) present.push_back(values[static_cast<std::size_t>(at)]);
  }
  return present;
}

double row_mean(const std::vector<double>& values, std::int64_t row, int ranks) {
  const std::vector<double> present = row_values(values, row, ranks);
  return sum(present, 0, present.size()) / static_cast<double>(present.size());
}

/// Rows [begin, end) of /step that are in memory: sums over them of one rank's column, 0 where the rank was not there.
double rank_sum(const MetricsTable& metrics, const char* path, std::int64_t begin, std::int64_t end, int rank) {
  const std::vector<double>& values = column(metrics, path);
  double total = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const double value = values[static_cast<std::size_t>(row * metrics.ranks + rank)];
    total += std::isnan(value) ? 0 : value;
  }
  return total;
}

/// Seconds of a rank in those rows, waits included.
double rank_seconds(const MetricsTable& metrics, std::int64_t begin, std::int64_t end, int rank) {
  double total = 0;
  for (const char* path : {"/step/compute_seconds", "/step/update_seconds", "/step/wait_seconds", "/step/data_seconds"})
    total += rank_sum(metrics, path, begin, end, rank);
  return total;
}

/// Images per second of a rank in those rows: the steps' rates weighted by their seconds.
double rank_rate(const MetricsTable& metrics, std::int64_t begin, std::int64_t end, int rank) {
  const std::vector<double>& rates = column(metrics, "/step/images_per_second");
  double images = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const double seconds = rank_seconds(metrics, row, row + 1, rank);
    if (seconds > 0) images += rates[static_cast<std::size_t>(row * metrics.ranks + rank)] * seconds;
  }
  const double seconds = rank_seconds(metrics, begin, end, rank);
  return seconds > 0 ? images / seconds : 0;
}

void add_last_steps(RunView& view, const MetricsTable& metrics) {
  const std::int64_t rows = metrics.steps - metrics.first_step;
  const std::int64_t begin = std::max<std::int64_t>(0, rows - recent_steps);
  view.fastest = std::numeric_limits<double>::infinity();
  double waited = 0, starved = 0, seconds = 0;
  for (int rank = 0; rank < view.ranks && begin < rows; ++rank) {
    const double own = rank_seconds(metrics, begin, rows, rank);
    if (own == 0) continue;  // of a rank that was not there
    const double computing = rank_sum(metrics, "/step/compute_seconds", begin, rows, rank) / (rows - begin);
    if (computing > view.slowest) view.slowest_rank = rank;
    view.slowest = std::max(view.slowest, computing);
    view.fastest = std::min(view.fastest, computing);
    view.images_per_second += rank_rate(metrics, begin, rows, rank);
    waited += rank_sum(metrics, "/step/wait_seconds", begin, rows, rank);
    starved += rank_sum(metrics, "/step/data_seconds", begin, rows, rank);
    seconds += own;
  }
  view.wait_share = seconds > 0 ? waited / seconds : 0;
  view.data_share = seconds > 0 ? starved / seconds : 0;
  for (std::int64_t row = std::max<std::int64_t>(0, rows - 8 * static_cast<std::int64_t>(bars)); row < rows; ++row)
    view.step_losses.push_back(row_mean(column(metrics, "/step/loss"), row, view.ranks));
}

}  // namespace

RunView view_of(const std::string& name, const MetricsTable& metrics, std::int64_t epochs_wanted) {
  RunView view;
  view.name = name;
  view.ranks = metrics.ranks;
  view.epochs = metrics.epochs;
  view.epochs_wanted = epochs_wanted;
  view.steps = metrics.steps;
  view.metric = metrics.metric;
  view.train_loss = view.mean_model_loss = view.mean_model_score = view.consensus_distance = unknown;
  view.score_lowest = view.score_highest = view.seconds_left = unknown;
  for (std::int64_t epoch = 0; epoch < view.epochs; ++epoch)
    view.epoch_losses.push_back(row_mean(column(metrics, "/epoch/train_loss"), epoch, view.ranks));
  if (view.epochs > 0) {
    const EpochSummary last = epoch_summary(metrics, view.epochs - 1, epochs_wanted);
    view.train_loss = last.train_loss;
    view.mean_model_loss = last.mean_model_loss;
    view.mean_model_score = last.mean_model_score;
    view.score_lowest = last.score_lowest;
    view.score_highest = last.score_highest;
    view.consensus_distance = last.consensus_distance;
    const auto steps = static_cast<std::int64_t>(column(metrics, "/epoch/steps").back()) / view.epochs;
    view.steps_wanted = steps * epochs_wanted;
    const std::int64_t recent = std::min(view.epochs, recent_epochs);
    const std::vector<double>& seconds = column(metrics, "/epoch/seconds");
    const double pace =
        sum(seconds, static_cast<std::size_t>(view.epochs - recent), static_cast<std::size_t>(view.epochs)) / recent;
    const double left = static_cast<double>(view.steps_wanted - view.steps) / std::max<std::int64_t>(1, steps);
    view.seconds_left = pace * std::max(0.0, left);
  }
  add_last_steps(view, metrics);
  return view;
}

EpochSummary epoch_summary(const MetricsTable& metrics, std::int64_t epoch, std::int64_t epochs_wanted) {
  const auto at = static_cast<std::size_t>(epoch);
  EpochSummary summary;
  summary.epoch = epoch + 1;
  summary.epochs = epochs_wanted;
  summary.metric = metrics.metric;
  summary.train_loss = row_mean(column(metrics, "/epoch/train_loss"), epoch, metrics.ranks);
  summary.mean_model_loss = column(metrics, "/epoch/mean_model_loss")[at];
  summary.mean_model_score = column(metrics, "/epoch/mean_model_" + metrics.metric)[at];
  summary.consensus_distance = column(metrics, "/epoch/consensus_distance")[at];
  summary.seconds = column(metrics, "/epoch/seconds")[at];
  const std::vector<double> scores = row_values(column(metrics, "/epoch/test_" + metrics.metric), epoch, metrics.ranks);
  const auto [lowest, highest] = std::minmax_element(scores.begin(), scores.end());
  summary.score_lowest = scores.empty() ? unknown : *lowest;
  summary.score_highest = scores.empty() ? unknown : *highest;

  const std::vector<double>& steps = column(metrics, "/epoch/steps");
  const auto end = static_cast<std::int64_t>(steps[at]) - metrics.first_step;
  const std::int64_t begin = (at == 0 ? 0 : static_cast<std::int64_t>(steps[at - 1])) - metrics.first_step;
  double seconds = 0, waited = 0, rate = 0;
  const bool known = begin >= 0 && end > begin && end <= metrics.steps - metrics.first_step;
  for (int rank = 0; rank < metrics.ranks && known; ++rank) {
    const double own = rank_seconds(metrics, begin, end, rank);
    summary.training_seconds = std::max(summary.training_seconds, own);
    seconds += own;
    waited += rank_sum(metrics, "/step/wait_seconds", begin, end, rank);
    rate += rank_rate(metrics, begin, end, rank);
  }
  // NaN, which shows, where those steps were not read
  summary.wait_share = known ? waited / seconds : unknown;
  summary.images = known ? rate * summary.training_seconds : unknown;
  return summary;
}

std::string sparkline(const std::vector<double>& values, std::size_t width, bool blocks) {
  static constexpr std::array block{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array plain{"_", ".", ",", "-", "=", "+", "*", "#"};
  const std::size_t count = std::min(values.size(), width);
  std::vector<double> heights;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * values.size() / count, end = (i + 1) * values.size() / count;
    heights.push_back(sum(values, begin, end) / static_cast<double>(end - begin));
  }
  if (heights.empty()) return "";
  const auto [lowest, highest] = std::minmax_element(heights.begin(), heights.end());
  const double base = *lowest, range = *highest - *lowest;
  std::string line;
  for (const double height : heights) {
    const double share = range > 0 ? (height - base) / range : 0;
    const auto level = static_cast<std::size_t>(std::clamp(share * 7.999, 0.0, 7.0));
    line += blocks ? block[level] : plain[level];
  }
  return line;
}

std::string screen(const RunView& view, bool blocks) {
  const char* state = view.writer ? "training" : view.finished() ? "finished" : "stopped before its end";
  std::string text = format("%s: %s, %s\n", view.name.c_str(), state, counted(view.ranks, "rank").c_str());
  const double share = view.steps_wanted > 0 ? static_cast<double>(view.steps) / view.steps_wanted : 0;
  text += format("  epochs    %ld of %ld %s %3.0f %%, %ld steps", static_cast<long>(view.epochs),
                 static_cast<long>(view.epochs_wanted), bar(share).c_str(), 100 * share, static_cast<long>(view.steps));
  if (view.writer && std::isfinite(view.seconds_left))
    text.append(", ").append(human_time(view.seconds_left)).append(" left");
  text += '\n';
  if (view.epochs > 0) {
    text += format("  loss      training %.4f, mean model %.4f (test)\n", view.train_loss, view.mean_model_loss);
    text.append(indent).append(sparkline(view.epoch_losses, bars, blocks)).append(" training loss by epoch\n");
  }
  if (!view.step_losses.empty()) {
    text.append(indent).append(sparkline(view.step_losses, bars, blocks));
    text += format(" of the last %zu steps\n", view.step_losses.size());
  }
  if (view.epochs > 0) {
    const char* const unit = row_of(metrics(), view.metric, "metric").per_cent ? " %" : "";
    const auto number = [&view](double score) { return score_text(view.metric, score); };
    text += format("  %-8s  mean model %s%s, replicas %s-%s%s, consensus distance %.4g\n", view.metric.c_str(),
                   number(view.mean_model_score).c_str(), unit, number(view.score_lowest).c_str(),
                   number(view.score_highest).c_str(), unit, view.consensus_distance);
  }
  if (view.steps > 0) {
    text += format("  speed     %.0f images/s, waiting for neighbours %.1f %%, for data %.1f %%\n",
                   view.images_per_second, 100 * view.wait_share, 100 * view.data_share);
    text += format("  ranks     compute a step in %.3g to %.3g ms; the slowest is rank %d\n", 1e3 * view.fastest,
                   1e3 * view.slowest, view.slowest_rank);
  } else {
    text += "  no steps have been written yet\n";
  }
  return text;
}

}  // namespace halograd
