#pragma once

#include <chrono>
#include <string>

namespace halograd {

/// A bar of `width` characters, "[####......]" for a share of 0.4.
std::string bar(double share, int width = 30);

/// One line on a terminal that says how far something is, drawn in place of the one before at most five times a second.
/// The line goes when the object goes, so that what is printed next begins a line.
class ProgressLine {
 public:
  /// `shown`: false draws nothing, for ranks and programs that are to be silent.
  explicit ProgressLine(bool shown = true);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether lines are drawn: not if standard output does not come to a terminal.
  [[nodiscard]] bool on_terminal() const { return terminal_; }

  /// Whether the next draw() would be too soon after the one before, so that its text need not be made.
  [[nodiscard]] bool too_soon() const;

  void draw(const std::string& text);
  void clear();

 private:
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace halograd
