#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

namespace halograd {

/// A flat range of numbers in host memory that somebody else owns.
using Numbers = std::variant<std::span<float>, std::span<double>, std::span<std::int64_t>>;

/// What kind of numbers, in the order of the variant.
enum class NumberType { float32, float64, int64 };

inline NumberType type_of(const Numbers& numbers) {
  return static_cast<NumberType>(numbers.index());
}
inline std::size_t count_of(const Numbers& numbers) {
  return std::visit([](auto range) { return range.size(); }, numbers);
}
inline std::span<std::byte> bytes_of(const Numbers& numbers) {
  return std::visit([](auto range) { return std::as_writable_bytes(range); }, numbers);
}

/// A part of a rank's state under the name that a checkpoint keeps it by. The count is the same on all ranks.
struct SavedState {
  std::string name;
  Numbers values;
};

}  // namespace halograd
