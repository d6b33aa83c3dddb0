#pragma once

#include <cstddef>

#include "kernels/types.hpp"
#include "window/halo_values.hpp"

namespace halograd {

/// Owns the values of one halo, in either memory; zero at first.
class HaloBuffer {
 public:
  HaloBuffer(HaloMemory memory, std::size_t length)
      : memory_(memory),
        host_("halograd::halo", memory == HaloMemory::host ? length : 0),
        device_("halograd::halo", memory == HaloMemory::device ? length : 0) {}

  [[nodiscard]] HaloValues<float> values() const {
    return memory_ == HaloMemory::host ? HaloValues<float>(host_) : HaloValues<float>::on_device(device_);
  }

 private:
  HaloMemory memory_;
  Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace> host_;
  Buffer<float> device_;
};

/// to = from, which have the same length and lie in the same memory; fenced.
inline void copy_halo(HaloValues<const float> from, HaloValues<float> to) {
  const auto copy = [](const auto& exec, const auto& there, const auto& here) {
    Kokkos::deep_copy(exec, there, here);
    exec.fence();
  };
  if (from.memory() == HaloMemory::device) {
    copy(ExecutionSpace(), to.device(), from.device());
  } else {
    copy(Kokkos::DefaultHostExecutionSpace(), to.host(), from.host());
  }
}

}  // namespace halograd
