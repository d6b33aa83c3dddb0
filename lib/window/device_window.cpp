#include "window/device_window.hpp"

#include "support/memory.hpp"

namespace halograd {

DeviceWindow::DeviceWindow(const Communicator& comm, std::size_t bytes) : comm_(comm) {
  comm_.together([&] {
    require_kernel_memory(static_cast<double>(bytes), "halos");
    memory_ = Buffer<float>("halograd::device_window", bytes / sizeof(float));
  });
  window_ = OwnedWindow::over(comm_, memory_.data(), bytes);
}

}  // namespace halograd
