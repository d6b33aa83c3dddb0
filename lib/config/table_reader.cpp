#include "config/table_reader.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>

#include "support/text.hpp"

namespace halograd {

namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_plain_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(),
                                 [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
  return plain && (name.empty() || (name.front() != '.' && name.back() != '.'));
}

std::string resolved(const std::string& path, const std::string& folder) {
  if (path.empty() || folder.empty()) return path;
  return (std::filesystem::absolute(folder) / path).lexically_normal().string();
}

}  // namespace

std::string KeyHomes::suggestion(const std::string& key) const {
  const std::string* best = nearest(key, keys_);
  if (best == nullptr) return "";
  const auto table = tables_[static_cast<std::size_t>(best - keys_.data())];
  return "; did you mean \"" + *best + "\" in [" + table + "]?";
}

void TableReader::require_known(const std::vector<std::string>& known) const {
  for (const Node& item : table_.items) {
    if (contains(known, item.key)) continue;
    std::string suggestion = did_you_mean(item.key, known);
    if (suggestion.empty()) suggestion = homes_.suggestion(item.key);
    fail_at(item.key_place, "unknown key \"" + item.key + "\" in " + label_ + suggestion,
            label_ + " takes: " + listed(known));
  }
}

void TableReader::read(const Node& node, const std::string& path, bool& member, const Allowed&) const {
  require_kind(node, Node::Kind::boolean, path, type_name(member));
  member = node.boolean;
}

void TableReader::read(const Node& node, const std::string& path, int& member, const Allowed& allowed) const {
  require_kind(node, Node::Kind::integer, path, type_name(member));
  require_range(node, path, allowed);
  constexpr int largest = std::numeric_limits<int>::max();
  if (node.integer > largest || node.integer < -largest) {
    fail_at(node.place, path + " is " + std::to_string(node.integer) + ", must be at most " + std::to_string(largest));
  }
  member = static_cast<int>(node.integer);
}

void TableReader::read(const Node& node, const std::string& path, std::uint64_t& member, const Allowed& allowed) const {
  require_kind(node, Node::Kind::integer, path, type_name(member));
  require_range(node, path, allowed);
  member = static_cast<std::uint64_t>(node.integer);
}

void TableReader::read(const Node& node, const std::string& path, double& member, const Allowed& allowed) const {
  if (node.kind != Node::Kind::integer) require_kind(node, Node::Kind::floating, path, type_name(member));
  require_range(node, path, allowed);
  member = node.floating;
}

void TableReader::read(const Node& node, const std::string& path, std::string& member, const Allowed& allowed) const {
  require_kind(node, Node::Kind::string, path, type_name(member));
  if (!allowed.choices.empty() && !contains(allowed.choices, node.string)) {
    fail_at(node.place, path + " is \"" + node.string + "\", must be " + to_string(allowed) +
                            did_you_mean(node.string, allowed.choices));
  }
  if (allowed.plain_name && !is_plain_name(node.string)) {
    fail_at(node.place, path + " is \"" + node.string + "\", may hold only " + to_string(allowed));
  }
  member = node.string;
  if (allowed.path) member = resolved(node.string, node.from_override ? "." : folder_);
}

void TableReader::read(const Node& node, const std::string& path, std::vector<int>& member,
                       const Allowed& allowed) const {
  if (node.kind == Node::Kind::integer) {
    member.resize(1);
    read(node, path, member[0], allowed);
    return;
  }
  require_kind(node, Node::Kind::array, path, type_name(member));
  if (node.items.empty()) fail_type(node, path, type_name(member));
  member.assign(node.items.size(), 0);
  for (std::size_t i = 0; i < member.size(); ++i) read(node.items[i], path, member[i], allowed);
}

void TableReader::require_kind(const Node& node, Node::Kind kind, const std::string& path,
                               const std::string& expected) {
  if (node.kind != kind) fail_type(node, path, expected);
}

void TableReader::require_range(const Node& node, const std::string& path, const Allowed& allowed) {
  const double value = node.floating;
  const bool inside = std::isfinite(value) && (allowed.least_itself ? value >= allowed.least : value > allowed.least) &&
                      (allowed.most_itself ? value <= allowed.most : value < allowed.most);
  if (inside) return;
  const std::string limits = to_string(allowed);
  fail_at(node.place, path + " is " + short_number(value) + ", must be " + (limits.empty() ? "finite" : limits));
}

void TableReader::fail_type(const Node& node, const std::string& path, const std::string& expected) {
  fail_at(node.place, path + ": found " + describe(node) + ", expected " + expected);
}

void TableReader::fail_missing(const std::string& key, const std::string& meaning) const {
  fail_at(table_.place, label_ + " needs the key \"" + key + "\" (" + meaning + ")");
}

}  // namespace halograd
