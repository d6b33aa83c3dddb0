#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace halograd {

class JsonObject;

namespace json {

inline std::string text_of(std::string_view value) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char character : value) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      text += '\\';
      text += character;
    } else if (character == '\n') {
      text += "\\n";
    } else if (code < 0x20) {
      text += "\\u00";
      text += digits[code / 16];
      text += digits[code % 16];
    } else {
      text += character;
    }
  }
  return text + '"';
}
inline std::string text_of(const std::string& value) {
  return text_of(std::string_view(value));
}
inline std::string text_of(const char* value) {
  return text_of(std::string_view(value));
}
inline std::string text_of(bool value) {
  return value ? "true" : "false";
}
inline std::string text_of(std::integral auto value) {
  return std::to_string(value);
}

/// The shortest text that reads back as the same double. JSON has neither infinities nor NaN: they become null.
inline std::string text_of(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string text_of(const JsonObject& value);

template <class Value>
std::string text_of(const std::vector<Value>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + text_of(values[i]);
  return text + "]";
}

}  // namespace json

/// A JSON object that is written in the order of its keys' coming: what the subcommands print with --json.
class JsonObject {
 public:
  /// Strings (UTF-8), numbers, bools, JsonObjects and vectors of them.
  template <class Value>
  void add(std::string_view key, const Value& value) {
    body_ += (body_.empty() ? "" : ", ") + json::text_of(key) + ": " + json::text_of(value);
  }

  [[nodiscard]] std::string text() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

namespace json {
inline std::string text_of(const JsonObject& value) {
  return value.text();
}
}  // namespace json

}  // namespace halograd
