#include "config/document.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>
#include <system_error>
#include <utility>

#include "config/toml11.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {

namespace {

constexpr const char* override_file = "--set";
constexpr const char* blanks = " \t";

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(blanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

/// The lines of a TOML text, for the places in it.
class Source {
 public:
  Source(const std::string& text, std::string name) : name_(std::move(name)) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      lines_.push_back(std::make_shared<const std::string>(std::move(line)));
    }
    if (lines_.empty()) lines_.push_back(std::make_shared<const std::string>());
  }

  /// What stands after the last character is placed at the end of the last line that holds anything.
  [[nodiscard]] Place at(toml11::Stretch stretch) const {
    auto line = std::clamp<std::size_t>(stretch.line, 1, lines_.size());
    const auto empty = [&] { return lines_[line - 1]->find_first_not_of(blanks) == std::string::npos; };
    const bool past_the_end = line < stretch.line || empty();
    while (line > 1 && empty()) --line;
    Place place{name_, static_cast<int>(line), 0, static_cast<int>(stretch.length), lines_[line - 1]};
    place.column = static_cast<int>(past_the_end ? place.text->size() + 1 : stretch.column);
    return place;
  }

 private:
  std::string name_;
  std::vector<std::shared_ptr<const std::string>> lines_;  // at least one
};

/// The TOML library keeps no places of keys: it is sought on the line, before the value or in the table's header.
Place key_place_of(const std::string& key, const Place& value, bool is_table) {
  const std::string& text = *value.text;
  const auto start = static_cast<std::size_t>(std::max(value.column - 1, 0));
  const char first = start < text.size() ? text[start] : ' ';
  std::size_t at = std::string::npos;
  if (is_table && first == '[') {
    at = text.rfind(key, start + static_cast<std::size_t>(value.length));
  } else if (is_table && first != '{') {
    at = text.find(key, start);
  } else if (start > 0) {
    at = text.rfind(key, start - 1);
  }
  if (at == std::string::npos) return value;
  Place place = value;
  place.column = static_cast<int>(at) + 1;
  place.length = static_cast<int>(key.size());
  return place;
}

/// A number's characters without underscores and plus sign.
std::string bare_digits(std::string digits) {
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (!digits.empty() && digits.front() == '+') digits.erase(0, 1);
  return digits;
}

template <class Number, class... Base>
bool fits(const std::string& digits, Base... base) {
  Number number{};
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number, base...);
  return result.ec != std::errc::result_out_of_range;
}

/// toml11 accepts numbers out of range without a word.
void require_number_fits(const Place& place, bool integer) {
  const auto written = place.text->substr(static_cast<std::size_t>(place.column - 1), place.length);
  const auto digits = bare_digits(written);
  if (!integer) {
    if (!fits<double>(digits)) fail_at(place, written + " does not fit a 64-bit floating-point number");
    return;
  }
  const auto prefix = digits.substr(0, 2);
  const int base = prefix == "0x" ? 16 : prefix == "0o" ? 8 : prefix == "0b" ? 2 : 10;
  if (!fits<std::int64_t>(base == 10 ? digits : digits.substr(2), base)) {
    fail_at(place, written + " does not fit a 64-bit integer");
  }
}

Node to_node(const toml11::Value& value, const Source& source, const std::string& key, bool from_override) {
  Node node;
  node.key = key;
  node.place = source.at(toml11::stretch_of(value.location()));
  node.key_place = key.empty() ? node.place : key_place_of(key, node.place, value.is_table());
  node.from_override = from_override;
  if (value.is_boolean()) {
    node.kind = Node::Kind::boolean;
    node.boolean = value.as_boolean();
  } else if (value.is_integer()) {
    node.kind = Node::Kind::integer;
    node.integer = value.as_integer();
    node.floating = static_cast<double>(node.integer);
    require_number_fits(node.place, true);
  } else if (value.is_floating()) {
    node.kind = Node::Kind::floating;
    node.floating = value.as_floating();
    require_number_fits(node.place, false);
  } else if (value.is_string()) {
    node.kind = Node::Kind::string;
    node.string = toml11::string_of(value);
  } else if (value.is_array()) {
    node.kind = Node::Kind::array;
    for (const auto& element : value.as_array()) node.items.push_back(to_node(element, source, "", from_override));
  } else if (value.is_table()) {
    for (const auto& [name, member] : value.as_table()) {
      node.items.push_back(to_node(member, source, name, from_override));
    }
    std::stable_sort(node.items.begin(), node.items.end(), [](const Node& a, const Node& b) {
      return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
    });
  } else {
    node.kind = Node::Kind::date;
  }
  return node;
}

/// Where a value stands that toml11 3 could not read: it reports the start of the line for most of them.
std::size_t value_start(const Place& place) {
  const auto at = static_cast<std::size_t>(place.column - 1);
  const auto equals = place.text->find('=');
  const bool starts_line = place.text->find_first_not_of(blanks) == at;
  if (!starts_line || equals == std::string::npos || equals <= at) return at;
  return std::min(place.text->find_first_not_of(blanks, equals + 1), place.text->size());
}

/// Whether a bare word stands there as a value.
bool bare_word_at(const std::string& line, std::size_t at) {
  if (at >= line.size() || !std::isalpha(static_cast<unsigned char>(line[at])) || at == 0) return false;
  const auto before = line.find_last_not_of(blanks, at - 1);
  return before != std::string::npos && std::string("=[,").find(line[before]) != std::string::npos &&
         line.rfind('=', at) != std::string::npos;
}

[[noreturn]] void fail_syntax(const toml::syntax_error& error, const Source& source) {
  Place place = source.at(toml11::stretch_of(error));
  const auto at = value_start(place);
  place.column = static_cast<int>(at) + 1;
  const auto before = at == 0 ? std::string::npos : place.text->find_last_not_of(blanks, at - 1);
  if (at >= place.text->size() && before != std::string::npos && (*place.text)[before] == '=') {
    fail_at(place, "not valid TOML: a value is missing after \"=\"");
  }
  if (bare_word_at(*place.text, at)) {
    fail_at(place, "not valid TOML: a value is expected here", "write a string in quotes: \"...\"");
  }
  std::string reason = toml11::message_of(error);
  const std::string function = "toml::";  // of the library, which reported it
  if (reason.compare(0, function.size(), function) == 0) reason.erase(0, reason.find(':', function.size()) + 1);
  fail_at(place, "not valid TOML: " + trimmed(reason));
}

/// The end of the TOML string that begins at `start`: behind its last quote, or the end of the line or text before
/// that.
std::size_t end_of_string(const std::string& text, std::size_t start) {
  const char quote = text[start];
  const std::size_t quotes = text.compare(start, 3, std::string(3, quote)) == 0 ? 3 : 1;
  for (std::size_t at = start + quotes; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text.compare(at, quotes, std::string(quotes, quote)) == 0) {
      return at + quotes;
    } else if (text[at] == '\n' && quotes == 1) {
      return at;
    }
  }
  return text.size();
}

/// The bytes of the UTF-8 character at `start` (Unicode, table 3-7); 0 where there is none.
std::size_t character_bytes(const std::string& text, std::size_t start) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[start + i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() - start < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return overlong || no_character ? 0 : bytes;
}

/// What is no UTF-8 makes the TOML library read beyond the text's end.
void require_utf8(const std::string& text, const Source& source) {
  std::size_t line = 1, line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text, at);
    if (bytes == 0) fail_at(source.at({line, at - line_start + 1, 1}), "not valid TOML: these bytes are no UTF-8");
    if (text[at] == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += bytes;
  }
}

/// The TOML library calls itself for each bracket that is open and each name of a dotted key, and would run out of
/// stack.
void require_shallow(const std::string& text, const Source& source) {
  constexpr int most = 32;
  int brackets = 0, dots = 0;
  std::size_t line = 1, line_start = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const std::size_t end = end_of_string(text, at);
      for (; at + 1 < end; ++at) {
        if (text[at] != '\n') continue;
        ++line;
        line_start = at + 1;
      }
      continue;
    }
    if (c == '#') at = std::min(text.find('\n', at), text.size() - 1);
    if (c == '[' || c == '{') ++brackets;
    if ((c == ']' || c == '}') && brackets > 0) --brackets;
    dots = c == '.' ? dots + 1 : std::string_view("=,[]{}#\n").find(c) == std::string_view::npos ? dots : 0;
    if (brackets > most || dots > most) {
      fail_at(source.at({line, at - line_start + 1, 1}), "nested deeper than " + std::to_string(most) + " levels");
    }
    if (text[at] != '\n') continue;
    ++line;
    line_start = at + 1;
  }
}

/// Throws toml::syntax_error where the text is not TOML.
Node parse_toml(const std::string& text, const Source& source, bool from_override) {
  require_utf8(text, source);
  require_shallow(text, source);
  return to_node(toml11::parse(text), source, "", from_override);
}

Node parse_or_fail(const std::string& text, const std::string& name, bool from_override) {
  const Source source(text, name);
  try {
    return parse_toml(text, source, from_override);
  } catch (const toml::syntax_error& error) {
    fail_syntax(error, source);
  }
}

/// "a . b" as {"a", "b"}.
std::vector<std::string> names_of_key(const std::string& key) {
  std::vector<std::string> names;
  for (std::size_t start = 0; start <= key.size();) {
    const auto dot = std::min(key.find('.', start), key.size());
    names.push_back(trimmed(key.substr(start, dot - start)));
    start = dot + 1;
  }
  return names;
}

/// network.layer.0.kernel, network.layer[0].kernel
bool is_layer_element(const std::vector<std::string>& names) {
  return names.size() > 1 && names[0] == "network" &&
         (names[1].rfind("layer[", 0) == 0 || (names.size() > 2 && names[1] == "layer"));
}

bool is_bare_key(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

void lay_over(Node& target, Node&& source) {
  if (target.kind != Node::Kind::table || source.kind != Node::Kind::table) {
    target = std::move(source);
    return;
  }
  for (Node& member : source.items) {
    const auto same = std::find_if(target.items.begin(), target.items.end(),
                                   [&](const Node& other) { return other.key == member.key; });
    if (same == target.items.end()) {
      target.items.push_back(std::move(member));
    } else {
      lay_over(*same, std::move(member));
    }
  }
}

}  // namespace

std::string to_string(const Place& place) {
  if (place.file == override_file) return place.file + " " + *place.text;
  std::string text = place.file;
  if (place.line > 0) text += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  return text;
}

void fail_at(const Place& place, const std::string& message, const std::string& hint) {
  std::string all = to_string(place) + ": " + message;
  if (place.line > 0) {
    const std::string margin = place.file == override_file ? override_file : std::to_string(place.line);
    const std::string& text = *place.text;
    const auto start = std::min(static_cast<std::size_t>(std::max(place.column - 1, 0)), text.size());
    const auto rest = std::max<std::size_t>(text.size() - start, 1);
    std::string blank = text.substr(0, start);
    // A tab stays one, so that the caret stands under its character.
    std::replace_if(
        blank.begin(), blank.end(), [](char c) { return c != '\t'; }, ' ');
    all += "\n  " + margin + " | " + text + "\n  " + std::string(margin.size(), ' ') + " | " + blank +
           std::string(std::clamp<std::size_t>(static_cast<std::size_t>(place.length), 1, rest), '^');
  }
  if (!hint.empty()) all += "\n" + hint;
  fail(all);
}

const Node* Node::find(std::string_view name) const {
  for (const Node& item : items) {
    if (item.key == name) return &item;
  }
  return nullptr;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::boolean:
      return node.boolean ? "true" : "false";
    case Node::Kind::integer:
      return "the integer " + std::to_string(node.integer);
    case Node::Kind::floating:
      return "the number " + short_number(node.floating);
    case Node::Kind::string:
      return "the string \"" + node.string + "\"";
    case Node::Kind::array:
      return "a list of " + std::to_string(node.items.size());
    case Node::Kind::table:
      return "a table";
    case Node::Kind::date:
      return "a date or time";
  }
  return "";
}

Node parse_document(const std::string& text, const std::string& name) {
  return parse_or_fail(text, name, false);
}

void apply_override(Node& document, const std::string& text) {
  const auto overridden = std::string(override_file) + " " + text;
  const auto equals = text.find('=');
  const std::string key = trimmed(text.substr(0, equals));
  HALOGRAD_REQUIRE(equals != std::string::npos && !key.empty(), overridden,
                   ": expected key=value, for example --set training.epochs=3");
  const std::string value = trimmed(text.substr(equals + 1));
  const auto names = names_of_key(key);
  HALOGRAD_REQUIRE(!is_layer_element(names), overridden,
                   ": a layer's keys cannot be set one by one; edit the run file, or give the whole list: "
                   "--set 'network.layer=[{type=\"flatten\"}, {type=\"dense\", channels=10}]'");
  HALOGRAD_REQUIRE(std::all_of(names.begin(), names.end(), is_bare_key), overridden, ": \"", key,
                   "\" is not a key; expected names joined by dots, for example training.epochs");
  HALOGRAD_REQUIRE(!value.empty(), overridden, ": a value is missing after \"=\"");
  const Source source(text, override_file);
  try {
    lay_over(document, parse_toml(text, source, true));
  } catch (const toml::syntax_error& error) {
    if (std::string("[{\"'").find(value.front()) != std::string::npos) fail_syntax(error, source);
    std::string quoted;
    for (const char c : value) quoted += (c == '\\' || c == '"') ? std::string{'\\', c} : std::string{c};
    lay_over(document, parse_or_fail(key + "=\"" + quoted + "\"", override_file, true));
  }
}

}  // namespace halograd
