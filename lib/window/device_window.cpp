#include "window/device_window.hpp"

#include <exception>

#include "kernels/error.hpp"
#include "mpi/wait.hpp"
#include "support/memory.hpp"
#include "window/windows.hpp"

namespace halograd {

DeviceWindow::DeviceWindow(MPI_Comm comm, std::size_t bytes) : exceptions_(std::uncaught_exceptions()) {
  together(comm, [&] {
    require_kernel_memory(static_cast<double>(bytes), "halos");
    memory_ = Buffer<float>("halograd::device_window", bytes / sizeof(float));
  });
  comm_ = duplicate(comm);
  try {
    window_ = create_window(comm_, memory_.data(), bytes);
  } catch (const CollectiveError&) {
    MPI_Comm_free(&comm_);
    throw;
  }
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
}

DeviceWindow::~DeviceWindow() {
  if (std::uncaught_exceptions() > exceptions_) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
  MPI_Comm_free(&comm_);
}

}  // namespace halograd
