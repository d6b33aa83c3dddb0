#pragma once

#include <type_traits>
#include <vector>

#include "kernels/bfloat16.hpp"
#include "kernels/random.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// A buffer on the device with these values.
template <class T>
Buffer<T> to_device(const std::vector<T>& values) {
  Buffer<T> buffer("test", values.size());
  Kokkos::deep_copy(buffer, HostVector<const T>(values.data(), values.size()));
  return buffer;
}

/// The values of a flat range on the device.
template <class View>
std::vector<typename View::non_const_value_type> to_host(const View& view) {
  using Value = typename View::non_const_value_type;
  std::vector<Value> values(view.extent(0));
  Kokkos::deep_copy(HostVector<Value>(values.data(), values.size()), Vector<const Value>(view.data(), view.extent(0)));
  return values;
}

/// `length` values between low and high, the same for the same seed.
template <class T>
std::vector<T> noise(std::size_t length, std::uint64_t seed, double low = -1, double high = 1) {
  std::vector<T> values(length);
  for (std::size_t i = 0; i < length; ++i) {
    values[i] = static_cast<T>(low + (high - low) * static_cast<double>(random_uniform(seed, i)));
  }
  return values;
}

/// Rounding errors that a few operations in Wide<T> leave, relative to values near one.
template <class T>
constexpr double tolerance = std::is_same_v<Wide<T>, float> ? 2e-6 : 1e-13;

/// What storing a result as T adds to them, relative to the result.
template <class T>
constexpr double storage_rounding = std::is_same_v<T, Bfloat16> ? 0x1p-8 : 0;

}  // namespace halograd
