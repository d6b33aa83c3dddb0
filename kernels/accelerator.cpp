#include "kernels/accelerator.hpp"

#include <limits>
#include <set>
#include <string>

#include "kernels/accelerator_runtime.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#define HALOGRAD_RUNTIME_NAME "CUDA"
#define HALOGRAD_MAKER nvidia
#elif defined(KOKKOS_ENABLE_HIP)
#define HALOGRAD_RUNTIME_NAME "HIP"
#define HALOGRAD_MAKER amd
#else
#define HALOGRAD_MAKER none
#endif

namespace halograd {

AcceleratorMaker accelerator_maker() {
  return AcceleratorMaker::HALOGRAD_MAKER;
}

#if defined(HALOGRAD_RUNTIME)

namespace {

__global__ void probe() {}

/// "12.4"
std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

int accelerators() {
  int count = 0;
  const auto status = HALOGRAD_RUNTIME(GetDeviceCount)(&count);
  if (status == HALOGRAD_RUNTIME(ErrorInsufficientDriver)) {
    int driver = 0, runtime = 0;
    static_cast<void>(HALOGRAD_RUNTIME(DriverGetVersion)(&driver));
    static_cast<void>(HALOGRAD_RUNTIME(RuntimeGetVersion)(&runtime));
    fail("this program needs a driver for " HALOGRAD_RUNTIME_NAME " ", version(runtime), ", found ",
         driver > 0 ? "one for " + version(driver) : "none");
  }
  HALOGRAD_REQUIRE(status == HALOGRAD_RUNTIME(Success) && count > 0,
                   "this program computes on a device (" HALOGRAD_RUNTIME_NAME "), but found none",
                   status == HALOGRAD_RUNTIME(Success) ? "" : ": ",
                   status == HALOGRAD_RUNTIME(Success) ? "" : HALOGRAD_RUNTIME(GetErrorString)(status),
                   "; a job asks for one with --gpus-per-task=1, and a build for cores needs none");
  return count;
}

void require_code_for(int accelerator) {
  const std::string number = "device " + std::to_string(accelerator);
  require_success(HALOGRAD_RUNTIME(SetDevice)(accelerator), number);
  HALOGRAD_RUNTIME(FuncAttributes) attributes{};
  const auto status = HALOGRAD_RUNTIME(FuncGetAttributes)(&attributes, reinterpret_cast<const void*>(probe));
  if (status == HALOGRAD_RUNTIME(Success)) return;
#if defined(KOKKOS_ENABLE_CUDA)
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, accelerator), number);
  const std::string architecture = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
#else
  hipDeviceProp_t properties{};
  require_success(hipGetDeviceProperties(&properties, accelerator), number);
  const std::string architecture = properties.gcnArchName;
#endif
  fail(number, " (", properties.name, ") is of architecture ", architecture, ", for which this program has no code (",
       HALOGRAD_RUNTIME(GetErrorString)(status), "): build it with a Kokkos for that architecture");
}

std::string accelerator_address(int accelerator) {
  char address[32] = "";
  require_success(HALOGRAD_RUNTIME(DeviceGetPCIBusId)(address, sizeof(address), accelerator),
                  "device " + std::to_string(accelerator));
  return address;
}

double free_accelerator_memory() {
  std::size_t left = 0, all = 0;
  require_success(HALOGRAD_RUNTIME(MemGetInfo)(&left, &all), "memory of the device");
  return static_cast<double>(left);
}

bool has_matrix_units() {
#if defined(KOKKOS_ENABLE_CUDA)
  return true;
#else
  static const bool found = [] {
    int accelerator = 0;
    require_success(hipGetDevice(&accelerator), "the device in use");
    hipDeviceProp_t properties{};
    require_success(hipGetDeviceProperties(&properties, accelerator), "device " + std::to_string(accelerator));
    const std::string name = properties.gcnArchName;  // "gfx90a:sramecc+:xnack-"
    const std::set<std::string> with_units{"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"};
    return with_units.count(name.substr(0, name.find(':'))) > 0;
  }();
  return found;
#endif
}

#else

int accelerators() {
  return 0;
}
void require_code_for(int /*accelerator*/) {}
std::string accelerator_address(int /*accelerator*/) {
  return "";
}
double free_accelerator_memory() {
  return std::numeric_limits<double>::infinity();
}
bool has_matrix_units() {
  return false;
}

#endif

}  // namespace halograd

#undef HALOGRAD_RUNTIME_NAME
#undef HALOGRAD_MAKER
