#include "run/write.hpp"

#include <cstdio>
#include <limits>
#include <string>

#include "kernels/error.hpp"
#include "run/keys.hpp"
#include "support/text.hpp"

namespace halograd {

namespace {

std::string toml_value(bool value) {
  return value ? "true" : "false";
}
std::string toml_value(int value) {
  return std::to_string(value);
}

std::string toml_value(std::uint64_t value) {
  HALOGRAD_REQUIRE(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), "the integer ", value,
                   " cannot be written to a run file: TOML's integers end at 2^63 - 1");
  return std::to_string(value);
}

std::string toml_value(double value) {
  const std::string text = short_number(value);
  // TOML takes digits alone for an integer.
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string toml_value(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += std::string{'\\', c};
    } else if (code < 0x20 || code == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      text += escape;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

template <class Sequence>
std::string toml_value(const Sequence& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + toml_value(value);
  return "[" + text + "]";
}

/// A visitor that writes a struct as a TOML table, each value with its meaning behind it.
class TableWriter {
 public:
  TableWriter(std::string prefix, bool with_meaning) : prefix_(std::move(prefix)), with_meaning_(with_meaning) {}

  template <class Member>
  void operator()(const char* key, const Member& member, const std::string& meaning, const Allowed&) {
    text += std::string(key) + " = " + toml_value(member);
    text += with_meaning_ ? "  # " + meaning + "\n" : "\n";
  }

  template <class Struct>
  void section(const char* key, Struct& member, const char* meaning) {
    text += std::string("\n# ") + meaning + "\n[" + prefix_ + key + "]\n";
    TableWriter writer(prefix_ + key + ".", with_meaning_);
    visit(writer, member);
    text += writer.text;
  }

  template <class Struct>
  void list(const char* key, std::vector<Struct>& members, const char*) {
    for (Struct& member : members) {
      text += "\n[[" + prefix_ + key + "]]\n";
      TableWriter writer(prefix_ + key + ".", false);
      visit(writer, member);
      text += writer.text;
    }
  }

  std::string text;

 private:
  std::string prefix_;
  bool with_meaning_;
};

/// A visitor that collects all keys but those of lists.
class KeyCollector {
 public:
  explicit KeyCollector(std::string prefix) : prefix_(std::move(prefix)) {}

  template <class Member>
  void operator()(const char* key, const Member& member, const std::string&, const Allowed&) {
    all.push_back({prefix_ + key, toml_value(member)});
  }

  template <class Struct>
  void section(const char* key, Struct& member, const char*) {
    KeyCollector keys(prefix_ + key + ".");
    visit(keys, member);
    all.insert(all.end(), keys.all.begin(), keys.all.end());
  }

  template <class Struct>
  void list(const char*, std::vector<Struct>&, const char*) {}

  std::vector<KeyValue> all;

 private:
  std::string prefix_;
};

std::vector<KeyValue> keys_of(RunConfig config) {
  KeyCollector keys("");
  visit(keys, config);
  return keys.all;
}

}  // namespace

std::string to_toml(const RunConfig& config) {
  RunConfig copy = config;  // visit() hands out members that may be written to
  TableWriter writer("", true);
  visit(writer, copy);
  return writer.text;
}

std::vector<KeyValue> different_keys(const RunConfig& config, const RunConfig& other) {
  const std::vector<KeyValue> here = keys_of(config), there = keys_of(other);
  std::vector<KeyValue> different;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i].value != there[i].value) different.push_back(here[i]);
  }
  return different;
}

}  // namespace halograd
