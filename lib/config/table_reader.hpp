#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/allowed.hpp"
#include "config/document.hpp"

/// Reads TOML tables into structs. A function visit(visitor, struct) gives the visitor each key with its member, its
/// meaning and what it may be; run/keys.hpp has those of a run file.
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

/// The tables of a document and their keys: where else a key that is out of place may belong.
class KeyHomes {
 public:
  template <class Root>
  explicit KeyHomes(Root prototype) {
    visit(*this, prototype);
  }
  template <class Member>
  void operator()(const char*, Member&, const std::string&, const Allowed&) {}
  template <class Struct>
  void section(const char* table, Struct& member, const char*) {
    for (const auto& key : keys_of(member)) {
      keys_.push_back(key);
      tables_.emplace_back(table);
    }
  }

  /// `; did you mean "epochs" in [training]?`, with the nearest key; empty if none is near.
  [[nodiscard]] std::string suggestion(const std::string& key) const;

 private:
  std::vector<std::string> keys_, tables_;
};

/// A visitor that fills a struct from a TOML table. What the table does not give keeps its default.
class TableReader {
 public:
  /// `label` is what messages call the table, `prefix` is put before its keys ("training."). Relative paths are taken
  /// from `folder`, those of overrides from the folder the program was started in; with an empty folder the former stay
  /// as they are. `homes` has to outlive the reader.
  TableReader(const Node& table, std::string label, std::string prefix, std::string folder, const KeyHomes& homes)
      : table_(table),
        label_(std::move(label)),
        prefix_(std::move(prefix)),
        folder_(std::move(folder)),
        homes_(homes) {}

  [[nodiscard]] const Node& table() const { return table_; }
  /// From now on messages call the table so.
  void set_label(std::string label) { label_ = std::move(label); }
  /// Throws Error at the first key of the table that is not among `known`.
  void require_known(const std::vector<std::string>& known) const;

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
    const std::string label = "[" + prefix_ + key + "]";
    require_kind(*node, Node::Kind::table, prefix_ + key, "a table, " + label);
    TableReader reader(*node, label, prefix_ + key + ".", folder_, homes_);
    reader.require_known(keys_of(member));
    visit(reader, member);
  }

  /// Each entry is read by read_entry(TableReader&, Struct&), which has to stand beside the struct's visit().
  template <class Struct>
  void list(const char* key, std::vector<Struct>& entries, const char*) {
    const Node* nodes = table_.find(key);
    if (nodes == nullptr) return;
    const std::string path = prefix_ + key, label = "[[" + path + "]]";
    require_kind(*nodes, Node::Kind::array, path, "a list of tables, " + label);
    for (const Node& node : nodes->items) {
      require_kind(node, Node::Kind::table, path, "a list of tables, " + label);
      TableReader reader(node, label, path + ".", folder_, homes_);
      read_entry(reader, entries.emplace_back());
    }
  }

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
  std::string label_, prefix_, folder_;
  const KeyHomes& homes_;
};

/// Fills a struct from a whole document, which messages call `label`. Throws Error naming file, line and column where a
/// key is unknown or missing, and where a value is of the wrong type or not allowed.
template <class Root>
void read_table(const Node& document, const std::string& label, const std::string& folder, Root& root) {
  const KeyHomes homes(root);
  TableReader reader(document, label, "", folder, homes);
  reader.require_known(keys_of(root));
  visit(reader, root);
}

}  // namespace halograd
