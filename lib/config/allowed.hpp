#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

/// What the value of a key in a TOML table may be.
namespace halograd {

/// What a value may be. For lists it holds for each element.
struct Allowed {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_itself = true;
  bool most_itself = true;
  std::vector<std::string> choices{};  ///< empty: any
  bool required = false;               ///< has to be given
  bool path = false;                   ///< a file or folder, resolved against the run file's folder
  bool plain_name = false;             ///< part of a file or dataset name: letters, digits, "_", "-" and "." inside
};

inline Allowed at_least(double value) {
  return {.least = value};
}
inline Allowed above(double value) {
  return {.least = value, .least_itself = false};
}
inline Allowed between(double least, double most) {
  return {.least = least, .most = most};
}
inline Allowed at_least_and_below(double least, double most) {
  return {.least = least, .most = most, .most_itself = false};
}
inline Allowed above_and_at_most(double least, double most) {
  return {.least = least, .most = most, .least_itself = false};
}
inline Allowed one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
inline Allowed a_path() {
  return {.path = true};
}
inline Allowed a_plain_name() {
  return {.plain_name = true};
}
inline Allowed required(Allowed allowed) {
  allowed.required = true;
  return allowed;
}

/// "at least 0 and below 1", "one of "sgd", "adam""; empty where anything of the type is allowed.
std::string to_string(const Allowed& allowed);

// What a message or the reference calls a member's type.
inline const char* type_name(bool) {
  return "true or false";
}
inline const char* type_name(int) {
  return "an integer";
}
inline const char* type_name(std::uint64_t) {
  return "an integer";
}
inline const char* type_name(double) {
  return "a number";
}
inline const char* type_name(const std::string&) {
  return "a string";
}
inline const char* type_name(const std::vector<double>&) {
  return "a list of numbers";
}
inline const char* type_name(const std::vector<std::string>&) {
  return "a list of strings";
}
inline const char* type_name(const std::vector<int>&) {
  return "an integer or a list of integers";
}

}  // namespace halograd
