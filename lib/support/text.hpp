#pragma once

#include <string>
#include <type_traits>
#include <vector>

/// Numbers, lists and words for messages, tables and start lines. Each helper is here once.
namespace halograd {

/// What printf would print.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// The shortest decimal text that reads back as exactly this value: "0.1", "1", "1e-05".
std::string short_number(double value);

/// Four significant digits: "0.6667", "1.234e+05".
std::string significant(double value);

/// "1,234,567"; rounded to a whole number.
std::string with_thousands(double number);

/// "1.7 MB", "45.2 kB": powers of 1000, three digits.
std::string human_bytes(double bytes);

/// "0:54", "1:02:03".
std::string human_time(double seconds);

/// "1 rank", "8 ranks", "0 ranks"; rounded to a whole number.
std::string counted(double number, const std::string& noun);

/// "a, b, c"; of strings or whole numbers.
template <class Sequence>
std::string listed(const Sequence& values, const char* separator = ", ") {
  std::string text;
  bool first = true;
  for (const auto& value : values) {
    if (!first) text += separator;
    first = false;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
      text += std::to_string(value);
    else
      text += value;
  }
  return text;
}

/// A word for a shell, in quotes if it needs them.
std::string shell_word(const std::string& word);

/// Letters to insert, delete, replace or swap with their neighbour to make one word the other.
int edit_distance(const std::string& a, const std::string& b);

/// The candidate that `word` is probably a slip of; nullptr if none is near.
const std::string* nearest(const std::string& word, const std::vector<std::string>& candidates);

/// `; did you mean "epochs"?` with the nearest candidate; empty if none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace halograd
