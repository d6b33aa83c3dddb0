#pragma once

#include <cstddef>

#include "kernels/types.hpp"
#include "mpi/owned_window.hpp"

namespace halograd {

/// One zeroed region of device memory per rank, which all ranks of the communicator reach by MPI_Put from their own
/// device memory; on builds for cores, of host memory. It is in a lock_all epoch for its whole life. On devices it
/// needs an MPI that reads and writes their memory.
class DeviceWindow {
 public:
  /// Collective. `bytes` of this rank, a multiple of 4. Throws CollectiveError where a device has too little memory
  /// left, or where MPI makes no window over it.
  DeviceWindow(const Communicator& comm, std::size_t bytes);

  /// This rank's region.
  [[nodiscard]] Vector<float> own() const { return memory_; }
  /// Reaches all regions, displacements in bytes.
  [[nodiscard]] const OwnedWindow& window() const { return window_; }

 private:
  OwnedComm comm_;
  Buffer<float> memory_;
  OwnedWindow window_;
};

}  // namespace halograd
