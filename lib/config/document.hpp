#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// A TOML text as a tree that remembers where each value stands. The TOML library shows in document.cpp only.
namespace halograd {

/// A stretch of one line of a run file, or of the text after --set.
struct Place {
  std::string file;
  int line = 0;    ///< from 1; 0: the file as a whole
  int column = 0;  ///< from 1, in bytes
  int length = 0;
  std::shared_ptr<const std::string> text{};  ///< the whole line, which all values on it share; none where line is 0
};

/// "run.toml:3:10", or the override itself: "--set training.epochs=0".
std::string to_string(const Place& place);

/// Throws Error: place, message, the line with a caret under the place, and the hint below it.
[[noreturn]] void fail_at(const Place& place, const std::string& message, const std::string& hint = "");

/// A value of the tree.
struct Node {
  enum class Kind { boolean, integer, floating, string, array, table, date };
  Kind kind = Kind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double floating = 0;  ///< also of an integer
  std::string string;
  std::vector<Node> items;  ///< an array's elements, a table's members in the file's order
  std::string key;          ///< as a member of a table
  Place place;              ///< of the value
  Place key_place;
  bool from_override = false;

  /// The member of that key; nullptr where there is none.
  [[nodiscard]] const Node* find(std::string_view name) const;
};

/// `the string "x"`, `the integer 3`, `a list`: what was found, for messages.
std::string describe(const Node& node);

/// Parses a TOML text; `name` stands for the file in places. Throws Error where it is not TOML and for numbers that do
/// not fit 64 bits.
Node parse_document(const std::string& text, const std::string& name);

/// Lays "a.b=value" over the tree. The value is TOML; a bare word is taken as a string.
void apply_override(Node& document, const std::string& text);

}  // namespace halograd
