#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "app/commands.hpp"
#include "app/watch_view.hpp"
#include "io/run_folder.hpp"
#include "kernels/error.hpp"
#include "nn/losses.hpp"
#include "run/read.hpp"
#include "support/terminal.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t most_values = 200'000;  // of a column of /step, read at each look

struct WatchOptions {
  std::string run;
  bool once = false;
  bool follow = false;
  double interval = 2;
  double patience = 600;
};

/// Where block characters are known to be shown.
bool terminal_has_blocks() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string name = value;
    return name.find("UTF-8") != std::string::npos || name.find("utf8") != std::string::npos;
  }
  return false;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Follows the files of one run.
class Watcher {
 public:
  explicit Watcher(WatchOptions options) : options_(std::move(options)), folder_{options_.run} {
    if (fs::path(folder_.path).filename().empty()) folder_.path = fs::path(folder_.path).parent_path().string();
    HALOGRAD_REQUIRE(fs::is_directory(folder_.path), folder_.path,
                     ": not a run folder; expected the folder of a run, for example runs/digits");
    HALOGRAD_REQUIRE(fs::exists(folder_.config()), folder_.path, ": holds no run: there is no ", folder_.config());
  }

  void watch() {
    const bool terminal = output_is_terminal();
    for (;;) {
      look();
      if (options_.once || terminal) {
        show_screen(terminal && !options_.once);
      } else {
        show_rows();
      }
      if (options_.once || ended()) return;
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.interval));
    }
  }

 private:
  void look() {
    epochs_wanted_ = read_config(folder_.config()).training.epochs;
    const bool there = fs::exists(folder_.metrics());
    if (there) {
      // Asked first: rows that are written between the two looks are seen, and then the next look sees the end.
      const bool writer = has_writer(folder_.metrics());
      if (metrics_.ranks == 0) metrics_ = read_metrics(folder_.metrics(), 1);  // how many they are
      metrics_ = read_metrics(folder_.metrics(), std::max<std::int64_t>(64, most_values / std::max(1, metrics_.ranks)));
      row_of(metrics(), metrics_.metric, folder_.metrics() + ": attribute 'metric'");
      view_ = view_of(fs::path(folder_.path).filename().string(), metrics_, epochs_wanted_);
      view_.writer = writer;
    } else {
      view_.name = fs::path(folder_.path).filename().string();
      view_.epochs_wanted = epochs_wanted_;
      view_.writer = true;  // between the run file and the metrics file
    }
    if (view_.steps != last_steps_ || view_.epochs != last_epochs_) news_ = Clock::now();
    last_steps_ = view_.steps;
    last_epochs_ = view_.epochs;
  }

  /// Replaces what the last call has shown.
  void show_screen(bool replace) {
    const std::string text = screen(view_, terminal_has_blocks());
    if (replace && shown_lines_ > 0) std::printf("\033[%ldA\033[J", shown_lines_);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    shown_lines_ = std::count(text.begin(), text.end(), '\n');
  }

  void show_rows() {
    if (rows_ > view_.epochs) rows_ = view_.epochs;  // begun anew, or resumed from before
    for (; rows_ < view_.epochs; ++rows_) {
      if (!heading_) std::printf("%s\n", epoch_heading(view_.metric).c_str());
      heading_ = true;
      std::printf("%s\n", epoch_row(epoch_summary(metrics_, rows_, epochs_wanted_)).c_str());
    }
    std::fflush(stdout);
  }

  /// A run has ended when its metrics file is closed: after the last epoch, or after a stop. A writer that died leaves
  /// it open, and is found out by its silence.
  bool ended() {
    if (view_.writer) {
      double patience = options_.patience;
      if (view_.epochs > 0) patience = std::max(patience, 3 * metrics_.columns.at("/epoch/seconds").back());
      HALOGRAD_REQUIRE(seconds_since(news_) < patience, folder_.metrics(), ": nothing new for ",
                       human_time(seconds_since(news_)),
                       ", and the file is not closed: the run has died, or its epochs take longer than --patience");
      return false;
    }
    if (view_.finished()) {
      std::printf("Finished: %ld epochs\n", static_cast<long>(view_.epochs));
      return true;
    }
    if (options_.follow) return false;
    std::printf("Stopped after %ld of %ld epochs and %ld steps; halograd train --resume continues it\n",
                static_cast<long>(view_.epochs), static_cast<long>(view_.epochs_wanted),
                static_cast<long>(view_.steps));
    return true;
  }

  WatchOptions options_;
  RunFolder folder_;
  MetricsTable metrics_;
  RunView view_;
  std::int64_t epochs_wanted_ = 0, last_steps_ = -1, last_epochs_ = -1, rows_ = 0;
  Clock::time_point news_ = Clock::now();
  long shown_lines_ = 0;
  bool heading_ = false;
};

}  // namespace

void add_watch(CLI::App& app) {
  auto options = std::make_shared<WatchOptions>();
  CLI::App* command = app.add_subcommand("watch", "Show a live view of a run; without a terminal, one line per epoch");
  command->add_option("run", options->run, "Run folder, for example runs/digits")->required();
  CLI::Option* once = command->add_flag("--once", options->once, "Show the current state and exit");
  command->add_flag("--follow", options->follow, "When the run is stopped, wait until it is resumed and finished")
      ->excludes(once);
  command->add_option("--interval", options->interval, "Seconds between two updates")->check(CLI::Range(0.1, 3600.0));
  command
      ->add_option("--patience", options->patience,
                   "Seconds without news after which a run that has not ended properly counts as dead")
      ->check(CLI::PositiveNumber);
  command->callback([options] { Watcher(*options).watch(); });
}

}  // namespace halograd
