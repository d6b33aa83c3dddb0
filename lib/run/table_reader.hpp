#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/document.hpp"
#include "run/keys.hpp"

namespace halograd {

/// A visitor that collects the keys of a struct.
class KeyList {
 public:
  template <class Member>
  void operator()(const char* key, Member&, const std::string&, const Allowed&) {
    keys.push_back(key);
  }
  template <class Member>
  void section(const char* key, Member&, const char*) {
    keys.push_back(key);
  }
  template <class Member>
  void list(const char* key, Member&, const char*) {
    keys.push_back(key);
  }

  std::vector<std::string> keys;
};

template <class Struct>
std::vector<std::string> keys_of(Struct prototype) {
  KeyList list;
  visit(list, prototype);
  return list.keys;
}

/// The keys that a layer of this type takes; of any type where it is empty.
std::vector<std::string> layer_keys(const std::string& type);

/// Throws Error at the first key of the table that is not among `known`; `label` is what the table is called.
void require_known_keys(const Node& table, const std::vector<std::string>& known, const std::string& label);

/// Throws Error where a key stands in a layer whose type does not take it.
void require_layer_keys(const Node& table, const std::string& type);

/// A visitor that fills a struct from a TOML table. What the table does not give keeps its default.
class TableReader {
 public:
  /// `prefix` is put before keys in messages ("training."). Relative paths are taken from `folder`, those of overrides
  /// from the folder the program was started in; with an empty folder the former stay as they are.
  TableReader(const Node& table, std::string prefix, std::string folder)
      : table_(table), prefix_(std::move(prefix)), folder_(std::move(folder)) {}

  template <class Member>
  void operator()(const char* key, Member& member, const std::string& meaning, const Allowed& allowed) {
    const Node* node = table_.find(key);
    if (node != nullptr) {
      read(*node, prefix_ + key, member, allowed);
    } else if (allowed.required) {
      fail_missing(key, meaning);
    }
  }

  template <class Struct>
  void section(const char* key, Struct& member, const char*) {
    const Node* node = table_.find(key);
    if (node == nullptr) return;
    require_kind(*node, Node::Kind::table, prefix_ + key, "a table, [" + prefix_ + key + "]");
    require_known_keys(*node, keys_of(member), "[" + prefix_ + key + "]");
    TableReader reader(*node, prefix_ + key + ".", folder_);
    visit(reader, member);
  }

  void list(const char* key, std::vector<LayerConfig>& layers, const char*);

 private:
  void read(const Node& node, const std::string& path, bool& member, const Allowed&) const;
  void read(const Node& node, const std::string& path, int& member, const Allowed& allowed) const;
  void read(const Node& node, const std::string& path, std::uint64_t& member, const Allowed& allowed) const;
  void read(const Node& node, const std::string& path, double& member, const Allowed& allowed) const;
  void read(const Node& node, const std::string& path, std::string& member, const Allowed& allowed) const;

  template <class Element>
  void read(const Node& node, const std::string& path, std::vector<Element>& member, const Allowed& allowed) const {
    require_kind(node, Node::Kind::array, path, type_name(member));
    member.assign(node.items.size(), Element{});
    for (std::size_t i = 0; i < member.size(); ++i) read(node.items[i], path, member[i], allowed);
  }

  void read(const Node& node, const std::string& path, std::vector<int>& member, const Allowed& allowed) const;

  static void require_kind(const Node& node, Node::Kind kind, const std::string& path, const std::string& expected);
  static void require_range(const Node& node, const std::string& path, const Allowed& allowed);
  [[noreturn]] static void fail_type(const Node& node, const std::string& path, const std::string& expected);
  [[noreturn]] void fail_missing(const std::string& key, const std::string& meaning) const;

  const Node& table_;
  std::string prefix_;
  std::string folder_;
};

}  // namespace halograd
