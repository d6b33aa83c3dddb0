#include "config/document.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <system_error>
#include <toml.hpp>
#include <utility>

#include "config/number.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {

namespace {

using TomlValue = toml::basic_value<toml::discard_comments, std::map, std::vector>;

constexpr const char* override_file = "--set";

Place place_of(const TomlValue& value) {
  const auto location = value.location();
  return {location.file_name(), static_cast<int>(location.line()), static_cast<int>(location.column()),
          static_cast<int>(location.region()), location.line_str()};
}

/// The TOML library keeps no places of keys: it is sought on the line, before the value or in the table's header.
Place key_place_of(const std::string& key, const Place& value, bool is_table) {
  const std::string& text = value.text;
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

/// toml11 3.7 takes the nearest representable value for a number out of range without a word.
void require_number_fits(const Place& place, bool integer) {
  const auto written = place.text.substr(static_cast<std::size_t>(place.column - 1), place.length);
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

Node to_node(const TomlValue& value, const std::string& key, bool from_override) {
  Node node;
  node.key = key;
  node.place = place_of(value);
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
    node.string = value.as_string().str;
  } else if (value.is_array()) {
    node.kind = Node::Kind::array;
    for (const auto& element : value.as_array()) node.items.push_back(to_node(element, "", from_override));
  } else if (value.is_table()) {
    for (const auto& [name, member] : value.as_table()) node.items.push_back(to_node(member, name, from_override));
    std::stable_sort(node.items.begin(), node.items.end(), [](const Node& a, const Node& b) {
      return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
    });
  } else {
    node.kind = Node::Kind::date;
  }
  return node;
}

/// toml11's syntax errors carry their place as text only: the last "3 | line" with a marker under it.
[[noreturn]] void fail_syntax(const toml::syntax_error& error, const std::string& name,
                              const std::string& only_line = "") {
  static const std::regex shown(R"( *([0-9]+) \| (.*))");
  static const std::regex marked(R"(( *\| )( *)(\^-*|~+) ?(.*))");
  std::istringstream report(error.what());
  std::string first, line;
  std::getline(report, first);
  std::optional<Place> place;
  std::string comment;
  std::smatch above, below;
  for (std::string previous; std::getline(report, line); previous = line) {
    if (std::regex_match(previous, above, shown) && std::regex_match(line, below, marked)) {
      const int length = below.str(3).front() == '^' ? 1 : static_cast<int>(below.str(3).size());
      place = Place{name, std::stoi(above.str(1)), static_cast<int>(below.str(2).size()) + 1, length, above.str(2)};
      comment = below.str(4);
    }
  }
  if (!place) {
    const auto& location = error.location();
    place = Place{name, static_cast<int>(location.line()), 1, static_cast<int>(location.line_str().size()),
                  location.line_str()};
  }
  // What ends too early is reported on the line after the last.
  if (!only_line.empty() && place->line > 1)
    place = Place{name, 1, static_cast<int>(only_line.size()) + 1, 1, only_line};
  const auto at = static_cast<std::size_t>(place->column - 1);
  const bool word = at < place->text.size() && std::isalpha(static_cast<unsigned char>(place->text[at]));
  if (word && place->text.rfind('=', at) != std::string::npos) {
    fail_at(*place, "not valid TOML: a value is expected here", "a string stands in quotes: \"...\"");
  }
  std::string message = std::regex_replace(first, std::regex(R"(^\[error\] (toml::\w+: ?)?|\.$)"), "");
  if (!comment.empty() && comment != "here") message += (message.empty() ? "" : ": ") + comment;
  fail_at(*place, "not valid TOML: " + message);
}

TomlValue parse_toml(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  return toml::parse<toml::discard_comments, std::map, std::vector>(in, name);
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
  if (place.file == override_file) return place.file + " " + place.text;
  std::string text = place.file;
  if (place.line > 0) text += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  return text;
}

void fail_at(const Place& place, const std::string& message, const std::string& hint) {
  std::string all = to_string(place) + ": " + message;
  if (place.line > 0) {
    const std::string margin = place.file == override_file ? override_file : std::to_string(place.line);
    const auto start = std::min(static_cast<std::size_t>(std::max(place.column - 1, 0)), place.text.size());
    const auto rest = std::max<std::size_t>(place.text.size() - start, 1);
    std::string blank = place.text.substr(0, start);
    // A tab stays one, so that the caret stands under its character.
    std::replace_if(
        blank.begin(), blank.end(), [](char c) { return c != '\t'; }, ' ');
    all += "\n  " + margin + " | " + place.text + "\n  " + std::string(margin.size(), ' ') + " | " + blank +
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

std::string read_text(const std::string& path) {
  HALOGRAD_REQUIRE(!std::filesystem::is_directory(path), path, ": is a folder, expected a TOML file");
  std::ifstream file(path, std::ios::binary);
  HALOGRAD_REQUIRE(file, path, ": cannot be opened: ", system_reason());
  std::ostringstream text;
  text << file.rdbuf();
  HALOGRAD_REQUIRE(!file.bad(), path, ": cannot be read: ", system_reason());
  return text.str();
}

Node parse_document(const std::string& text, const std::string& name) {
  try {
    return to_node(parse_toml(text, name), "", false);
  } catch (const toml::syntax_error& error) {
    fail_syntax(error, name);
  }
}

void apply_override(Node& document, const std::string& text) {
  static const std::regex shape(R"(\s*([^=]*?)\s*=\s*(.*?)\s*)");
  static const std::regex dotted_key(R"([A-Za-z0-9_-]+(\s*\.\s*[A-Za-z0-9_-]+)*)");
  static const std::regex layer_element(R"(network\s*\.\s*layer\s*[.\[].*)");
  const auto overridden = std::string(override_file) + " " + text;
  std::smatch parts;
  HALOGRAD_REQUIRE(std::regex_match(text, parts, shape) && parts.length(1) > 0, overridden,
                   ": expected key=value, for example --set training.epochs=3");
  const std::string key = parts.str(1), value = parts.str(2);
  HALOGRAD_REQUIRE(!std::regex_match(key, layer_element), overridden,
                   ": a layer's keys cannot be set one by one; edit the run file, or give the whole list: "
                   "--set 'network.layer=[{type=\"flatten\"}, {type=\"dense\", channels=10}]'");
  HALOGRAD_REQUIRE(std::regex_match(key, dotted_key), overridden, ": \"", key,
                   "\" is not a key; expected names joined by dots, for example training.epochs");
  HALOGRAD_REQUIRE(!value.empty(), overridden, ": a value is missing after \"=\"");
  const auto lay = [&document](const std::string& toml) {
    lay_over(document, to_node(parse_toml(toml, override_file), "", true));
  };
  try {
    lay(text);
  } catch (const toml::syntax_error& error) {
    if (std::string("[{\"'").find(value.front()) != std::string::npos) fail_syntax(error, override_file, text);
    std::string quoted;
    for (const char c : value) quoted += (c == '\\' || c == '"') ? std::string{'\\', c} : std::string{c};
    try {
      lay(key + "=\"" + quoted + "\"");
    } catch (const toml::syntax_error& again) {
      fail_syntax(again, override_file, text);
    }
  }
}

}  // namespace halograd
