#include "support/devices.hpp"

#include <cstdlib>
#include <sstream>

namespace halograd {

std::vector<std::string> visible_devices() {
  std::vector<std::string> devices;
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    std::istringstream list(text);
    for (std::string device; std::getline(list, device, ',');) devices.push_back(device);
    if (!devices.empty()) break;
  }
  return devices;
}

}  // namespace halograd
