#pragma once

#include <concepts>
#include <cstddef>

#include "kernels/error.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// Where halos lie: in host memory, or in the memory that kernels work in. On builds for cores these are the same
/// memory, but halos of one kind still go other ways than those of the other.
enum class HaloMemory { host, device };

/// A flat range of values that somebody else owns, and where it lies.
template <class T>
class HaloValues {
 public:
  HaloValues() = default;
  /// In host memory: what takes halos takes a range there as it is.
  template <class View>
  requires std::convertible_to<View, HostVector<T>> HaloValues(const View& values)
      : data_(values.data()), length_(values.extent(0)) {}
  static HaloValues on_device(Vector<T> values) {
    HaloValues result;
    result.data_ = values.data();
    result.length_ = values.extent(0);
    result.memory_ = HaloMemory::device;
    return result;
  }

  [[nodiscard]] HaloMemory memory() const { return memory_; }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t length() const { return length_; }

  /// Values [begin, begin + length).
  [[nodiscard]] HaloValues part(std::size_t begin, std::size_t length) const {
    HaloValues result = *this;
    result.data_ += begin;
    result.length_ = length;
    return result;
  }

  /// The same range, of values that stay as they are.
  [[nodiscard]] HaloValues<const T> to_read() const {
    return memory_ == HaloMemory::host ? HaloValues<const T>(host()) : HaloValues<const T>::on_device(device());
  }

  /// Throws Error where they lie in device memory.
  [[nodiscard]] HostVector<T> host() const {
    HALOGRAD_REQUIRE(memory_ == HaloMemory::host, "halo in device memory taken for one in host memory");
    return HostVector<T>(data_, length_);
  }
  operator HostVector<T>() const { return host(); }
  /// Throws Error where they lie in host memory.
  [[nodiscard]] Vector<T> device() const {
    HALOGRAD_REQUIRE(memory_ == HaloMemory::device, "halo in host memory taken for one in device memory");
    return Vector<T>(data_, length_);
  }

 private:
  T* data_ = nullptr;
  std::size_t length_ = 0;
  HaloMemory memory_ = HaloMemory::host;
};

}  // namespace halograd
