#pragma once

#include <charconv>
#include <string>
#include <system_error>

namespace halograd {

/// The shortest decimal text that reads back as exactly this value: "0.1", "1", "1e-05".
inline std::string short_number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace halograd
