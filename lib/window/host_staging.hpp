#pragma once

#include <optional>

#include "kernels/types.hpp"

namespace halograd {

/// A device buffer as MPI on the host reads and writes it: the buffer itself where the host reaches device memory, a
/// copy in host memory (pinned where Kokkos offers it) elsewhere.
class HostStaging {
 public:
  explicit HostStaging(std::size_t length) {
    if constexpr (copies) copy_.emplace(Kokkos::view_alloc("halograd::staging", Kokkos::WithoutInitializing), length);
  }

  /// The buffer's content as exec's work so far leaves it.
  HostVector<const float> download(const ExecutionSpace& exec, Vector<const float> buffer) {
    if constexpr (copies) Kokkos::deep_copy(exec, *copy_, buffer);
    exec.fence();
    return at(buffer.data(), buffer.extent(0));
  }
  /// The same, to be changed and then brought back with upload().
  HostVector<float> download_to_change(const ExecutionSpace& exec, Vector<float> buffer) {
    download(exec, buffer);
    return at(buffer.data(), buffer.extent(0));
  }
  void upload(const ExecutionSpace& exec, Vector<float> buffer) {
    if constexpr (copies) {
      Kokkos::deep_copy(exec, buffer, *copy_);
      exec.fence();
    }
  }

 private:
  static constexpr bool copies = !Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;
#ifdef KOKKOS_HAS_SHARED_HOST_PINNED_SPACE
  using Space = Kokkos::SharedHostPinnedSpace;
#else
  using Space = Kokkos::HostSpace;
#endif
  template <class T>
  HostVector<T> at(T* buffer, std::size_t length) const {
    if constexpr (copies) {
      return HostVector<T>(copy_->data(), length);
    } else {
      return HostVector<T>(buffer, length);
    }
  }

  std::optional<Kokkos::View<float*, Kokkos::LayoutRight, Space>> copy_;
};

}  // namespace halograd
