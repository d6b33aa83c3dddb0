#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <toml.hpp>

/// What differs between versions 3 and 4 of toml11. Only document.cpp includes this.
namespace halograd::toml11 {

/// A stretch of a text: line and column count from 1, column and length in bytes.
struct Stretch {
  std::size_t line = 1, column = 1, length = 1;
};

#if TOML11_VERSION_MAJOR >= 4

/// Accepts numbers that do not fit 64 bits, as version 3 does: the caller refuses them in its own words.
struct TypeConfig : toml::ordered_type_config {
  using comment_type = toml::discard_comments;

  static toml::result<integer_type, toml::error_info> parse_int(const std::string& text, toml::source_location place,
                                                                std::uint8_t base) {
    return toml::ok(toml::ordered_type_config::parse_int(text, std::move(place), base).unwrap_or(0));
  }
  static toml::result<floating_type, toml::error_info> parse_float(const std::string& text, toml::source_location place,
                                                                   bool is_hex) {
    return toml::ok(toml::ordered_type_config::parse_float(text, std::move(place), is_hex).unwrap_or(0));
  }
};

using Value = toml::basic_value<TypeConfig>;

inline Value parse(const std::string& text) {
  std::istringstream in(text);
  return toml::parse<TypeConfig>(in);
}

inline Stretch stretch_of(const toml::source_location& place) {
  return {place.first_line_number(), place.first_column_number(), place.length()};
}

inline std::string string_of(const Value& value) {
  return value.as_string();
}

/// Where the text stops being TOML.
inline Stretch stretch_of(const toml::syntax_error& error) {
  return stretch_of(error.errors().front().locations().front().first);
}

inline std::string message_of(const toml::syntax_error& error) {
  return error.errors().front().title();
}

#else

using Value = toml::value;

inline Value parse(const std::string& text) {
  std::istringstream in(text);
  return toml::parse(in);
}

inline Stretch stretch_of(const toml::source_location& place) {
  return {place.line(), place.column(), place.region()};
}

inline std::string string_of(const Value& value) {
  return value.as_string().str;
}

/// Where the text stops being TOML, or the start of that line.
inline Stretch stretch_of(const toml::syntax_error& error) {
  return stretch_of(error.location());
}

/// The report's first line; the others draw the place.
inline std::string message_of(const toml::syntax_error& error) {
  const std::string report = error.what(), mark = "[error] ";
  const std::size_t start = report.compare(0, mark.size(), mark) == 0 ? mark.size() : 0;
  return report.substr(start, report.find('\n') - start);
}

#endif

}  // namespace halograd::toml11
