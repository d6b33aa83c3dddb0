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

/// What a rank did in some steps.
struct RankTimes {
  double steps = 0, images = 0;
  double computing = 0, waiting = 0, data = 0, seconds = 0;  ///< the last with all of these, and the update
  [[nodiscard]] double rate() const { return seconds > 0 ? images / seconds : 0; }
};

/// What each rank did in rows [begin, end) of /step that are in memory; zero where the rank was not there.
std::vector<RankTimes> times_of(const MetricsTable& metrics, std::int64_t begin, std::int64_t end) {
  const auto values = [&](const char* path) { return column(metrics, path).begin() + begin * metrics.ranks; };
  const auto ranks = values("/step/rank"), rates = values("/step/images_per_second");
  const auto computing = values("/step/compute_seconds"), updating = values("/step/update_seconds");
  const auto waiting = values("/step/wait_seconds"), data = values("/step/data_seconds");
  std::vector<RankTimes> times(static_cast<std::size_t>(metrics.ranks));
  for (std::int64_t cell = 0; cell < (end - begin) * metrics.ranks; ++cell) {
    if (std::isnan(computing[cell])) continue;
    const double known = ranks[cell];  // -1 in files that do not say: then it is the column's
    RankTimes& rank =
        times.at(known < 0 ? static_cast<std::size_t>(cell % metrics.ranks) : static_cast<std::size_t>(known));
    const double seconds = computing[cell] + updating[cell] + waiting[cell] + data[cell];
    ++rank.steps;
    rank.images += rates[cell] * seconds;
    rank.computing += computing[cell];
    rank.waiting += waiting[cell];
    rank.data += data[cell];
    rank.seconds += seconds;
  }
  return times;
}

void add_last_steps(RunView& view, const MetricsTable& metrics) {
  const std::int64_t rows = metrics.steps - metrics.first_step;
  const std::int64_t begin = std::max<std::int64_t>(0, rows - recent_steps);
  view.fastest = std::numeric_limits<double>::infinity();
  double waited = 0, starved = 0, seconds = 0;
  const std::vector<RankTimes> times = times_of(metrics, begin, rows);
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const RankTimes& own = times[rank];
    if (own.steps == 0) continue;
    const double computing = own.computing / own.steps;
    if (computing > view.slowest) view.slowest_rank = static_cast<int>(rank);
    view.slowest = std::max(view.slowest, computing);
    view.fastest = std::min(view.fastest, computing);
    view.images_per_second += own.rate();
    waited += own.waiting;
    starved += own.data;
    seconds += own.seconds;
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
  for (const RankTimes& rank : known ? times_of(metrics, begin, end) : std::vector<RankTimes>()) {
    summary.training_seconds = std::max(summary.training_seconds, rank.seconds);
    seconds += rank.seconds;
    waited += rank.waiting;
    rate += rank.rate();
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
  double base = std::numeric_limits<double>::infinity(), highest = -base;
  for (const double height : heights) {
    if (!std::isfinite(height)) continue;
    base = std::min(base, height);
    highest = std::max(highest, height);
  }
  const double range = highest - base;
  std::string line;
  for (const double height : heights) {
    if (!std::isfinite(height)) {
      line += ' ';
      continue;
    }
    const double share = range > 0 && std::isfinite(range) ? (height - base) / range : 0;
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
