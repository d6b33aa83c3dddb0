#include "support/progress.hpp"

#include <algorithm>
#include <cstdio>

#include "support/terminal.hpp"

namespace halograd {

std::string bar(double share, int width) {
  std::string text(static_cast<std::size_t>(width), '.');
  std::fill_n(text.begin(), std::clamp(static_cast<int>(share * width), 0, width), '#');
  return "[" + text + "]";
}

ProgressLine::ProgressLine(bool shown) : terminal_(shown && output_is_terminal()) {}

bool ProgressLine::too_soon() const {
  return drawn_ && std::chrono::steady_clock::now() - last_ < std::chrono::milliseconds(200);
}

void ProgressLine::draw(const std::string& text) {
  if (!terminal_) return;
  std::printf("\r\033[K%s", text.c_str());
  std::fflush(stdout);
  drawn_ = true;
  last_ = std::chrono::steady_clock::now();
}

void ProgressLine::clear() {
  if (drawn_) std::printf("\r\033[K");
  drawn_ = false;
}

}  // namespace halograd
