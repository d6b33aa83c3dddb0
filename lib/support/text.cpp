#include "support/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace halograd {

std::string format(const char* pattern, ...) {
  std::va_list values, again;
  va_start(values, pattern);
  va_copy(again, values);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, pattern, values)) + 1, '\0');
  va_end(values);
  std::vsnprintf(text.data(), text.size(), pattern, again);
  va_end(again);
  text.pop_back();
  return text;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  const char* const begin = text.data();
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {begin, end};
}

std::string significant(double value) {
  return format("%.4g", value);
}

std::string with_thousands(double number) {
  std::string digits = format("%.0f", number);
  const long sign = digits[0] == '-' ? 1 : 0;
  for (auto at = static_cast<long>(digits.size()) - 3; at > sign; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string human_bytes(double bytes) {
  constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return format("%.*f %s", decimals, bytes, units[unit]);
}

std::string human_time(double seconds) {
  const long whole = std::lround(std::max(0.0, seconds));
  if (whole >= 3600) return format("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return format("%ld:%02ld", whole / 60, whole % 60);
}

std::string counted(double number, const std::string& noun) {
  const std::string digits = format("%.0f", number);
  return digits + " " + noun + (std::nearbyint(number) == 1 ? "" : "s");
}

std::string shell_word(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string("_./=:,@%+-").find(static_cast<char>(c)) != std::string::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> distance(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      int& here = distance[i][j];
      if (i == 0 || j == 0) {
        here = static_cast<int>(i + j);
        continue;
      }
      here =
          std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        here = std::min(here, distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

const std::string* nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  int least = 0;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    // A third of the letters wrong is still a slip; more is another word.
    const int slip = std::max(1, static_cast<int>(std::max(word.size(), candidate.size()) / 3));
    if (distance <= slip && (best == nullptr || distance < least)) {
      best = &candidate;
      least = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nearest(word, candidates);
  return best == nullptr ? "" : "; did you mean \"" + *best + "\"?";
}

}  // namespace halograd
