#pragma once

#include <mpi.h>

#include <cstddef>

#include "kernels/types.hpp"

namespace halograd {

/// One zeroed region of device memory a rank, that all ranks of the communicator reach by MPI_Put from their own device
/// memory; on builds for cores, of host memory. It is in a lock_all epoch for its whole life. On devices it needs an
/// MPI that reads and writes their memory.
class DeviceWindow {
 public:
  /// Collective. `bytes` of this rank, a multiple of 4. Throws CollectiveError where a device has too little memory
  /// left, or where MPI makes no window over it.
  DeviceWindow(MPI_Comm comm, std::size_t bytes);
  /// Collective; but while an exception unwinds the stack of this rank alone, the window is left to the abort that
  /// follows, since the other ranks do not come.
  ~DeviceWindow();
  DeviceWindow(const DeviceWindow&) = delete;
  DeviceWindow& operator=(const DeviceWindow&) = delete;

  /// This rank's region.
  [[nodiscard]] Vector<float> own() const { return memory_; }
  /// Reaches all regions, displacements in bytes.
  [[nodiscard]] MPI_Win get() const { return window_; }

 private:
  int exceptions_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  Buffer<float> memory_;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace halograd
