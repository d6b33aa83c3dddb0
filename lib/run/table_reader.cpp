#include "run/table_reader.hpp"

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

/// A visitor of RunConfig that collects the keys of its tables, each with its table.
class KeyHomes {
 public:
  template <class Member>
  void operator()(const char*, Member&, const std::string&, const Allowed&) {}

  template <class Struct>
  void section(const char* name, Struct& member, const char*) {
    for (const auto& key : keys_of(member)) {
      keys.push_back(key);
      tables.emplace_back(name);
    }
  }

  std::vector<std::string> keys, tables;
};

/// For a key that no key of its own table is near to.
std::string suggest_elsewhere(const std::string& key) {
  KeyHomes homes;
  RunConfig prototype;
  visit(homes, prototype);
  const std::string* best = nearest(key, homes.keys);
  if (best == nullptr) return "";
  const auto table = homes.tables[static_cast<std::size_t>(best - homes.keys.data())];
  return "; did you mean \"" + *best + "\" in [" + table + "]?";
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

std::vector<std::string> layer_keys(const std::string& type) {
  if (!type.empty()) {
    LayerConfig layer;
    layer.type = type;
    return keys_of(layer);
  }
  std::vector<std::string> all;
  for (const LayerType& each : layer_types()) {
    for (const auto& key : layer_keys(each.name)) {
      if (!contains(all, key)) all.push_back(key);
    }
  }
  return all;
}

void require_known_keys(const Node& table, const std::vector<std::string>& known, const std::string& label) {
  for (const Node& item : table.items) {
    if (contains(known, item.key)) continue;
    std::string suggestion = did_you_mean(item.key, known);
    if (suggestion.empty()) suggestion = suggest_elsewhere(item.key);
    fail_at(item.key_place, "unknown key \"" + item.key + "\" in " + label + suggestion,
            label + " takes: " + listed(known));
  }
}

void require_layer_keys(const Node& table, const std::string& type) {
  const auto taken = layer_keys(type);
  for (const Node& item : table.items) {
    if (contains(taken, item.key)) continue;
    std::vector<std::string> takers;
    for (const LayerType& each : layer_types()) {
      if (contains(layer_keys(each.name), item.key)) takers.emplace_back(each.name);
    }
    fail_at(item.key_place,
            "layers of type " + type + " do not take \"" + item.key + "\"; only " + listed(takers) + " do",
            "layers of type " + type + " take: " + listed(taken));
  }
}

void TableReader::list(const char* key, std::vector<LayerConfig>& layers, const char*) {
  const Node* nodes = table_.find(key);
  if (nodes == nullptr) return;
  const std::string path = prefix_ + key;
  const std::string label = "[[" + path + "]]";
  require_kind(*nodes, Node::Kind::array, path, "a list of tables, " + label);
  for (const Node& node : nodes->items) {
    require_kind(node, Node::Kind::table, path, "a list of tables, " + label);
    require_known_keys(node, layer_keys(""), label);
    TableReader reader(node, path + ".", folder_);
    visit(reader, layers.emplace_back());
    require_layer_keys(node, layers.back().type);
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
  std::string label = prefix_.substr(0, prefix_.size() - 1);
  const Node* type = table_.find("type");
  const std::string owner = type != nullptr ? "a layer of type " + type->string : "[[" + label + "]]";
  fail_at(table_.place, owner + " needs the key \"" + key + "\" (" + meaning + ")");
}

}  // namespace halograd
