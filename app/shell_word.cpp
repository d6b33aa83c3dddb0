#include "app/shell_word.hpp"

#include <algorithm>
#include <cctype>

namespace halograd {

std::string quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string("_./=:,@%+-").find(static_cast<char>(c)) != std::string::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace halograd
