#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "support/text.hpp"

/// Tables of what an axis of the program can be: one row per layer type, topology, averager, ... with its name, its
/// factory and all that the rest of the program needs to know of it. A row is an aggregate whose first member is
/// `const char* name` and whose other members are Facts, so that a row which leaves one out does not compile.
namespace halograd {

/// A member of a row that has to be given.
template <class T>
class Fact {
 public:
  template <class Value>
  constexpr Fact(Value value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a row lists values
  constexpr operator const T&() const { return value_; }     // NOLINT(google-explicit-constructor)
  constexpr const T& operator*() const { return value_; }
  constexpr const T* operator->() const { return &value_; }
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) const {
    return value_(std::forward<Arguments>(arguments)...);
  }

 private:
  T value_;
};

/// The names of a table's rows, in its order.
template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  names.reserve(std::size(table));
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

/// The row of that name; nullptr where there is none.
template <class Table>
const auto* find_row(const Table& table, std::string_view name) {
  for (const auto& row : table) {
    if (name == row.name) return &row;
  }
  return static_cast<decltype(&*std::begin(table))>(nullptr);
}

/// The row of that name. Throws Error naming `key` and the table's names where there is none.
template <class Table>
const auto& row_of(const Table& table, std::string_view name, std::string_view key) {
  if (const auto* row = find_row(table, name)) return *row;
  fail(key, " is \"", name, "\"; expected one of ", listed(names_of(table)));
}

}  // namespace halograd
