#include "support/memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "kernels/accelerator.hpp"
#include "kernels/error.hpp"
#include "kernels/types.hpp"

namespace halograd {
namespace {

constexpr double unknown = -1;

/// "Name:  123 kB" in a file of /proc, in bytes.
double kibibytes_of(const char* file, const std::string& name) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    double value = 0;
    if (word == name && in >> value) return value * 1024;
  }
  return unknown;
}

double number_in(const std::string& file) {
  std::ifstream in(file);
  double value = unknown;
  in >> value;  // "max": no limit
  return in ? value : unknown;
}

/// What is left of one control group; version 2, then version 1.
double left_in_group(const std::string& folder) {
  const auto left = [&](const char* limit_file, const char* used_file) {
    const double limit = number_in(folder + limit_file), used = number_in(folder + used_file);
    return limit < 0 || used < 0 ? std::numeric_limits<double>::infinity() : std::max(0.0, limit - used);
  };
  return std::min(left("/memory.max", "/memory.current"), left("/memory.limit_in_bytes", "/memory.usage_in_bytes"));
}

/// The least that this process' control group and those above it leave.
double left_in_groups() {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {  // "0::/path" or "9:memory:/path"
    const auto second = line.find(':', line.find(':') + 1);
    if (second == std::string::npos) continue;
    const bool memory = line.find(":memory") != std::string::npos;
    if (!memory && line.rfind("0::", 0) != 0) continue;
    const std::string root = memory ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    std::string path = line.substr(second + 1);
    while (path.find('/') != std::string::npos) {
      least = std::min(least, left_in_group(root + path));
      path.resize(path.rfind('/'));
    }
    least = std::min(least, left_in_group(root));
  }
  return least;
}

/// What the limits of this process (ulimit -v, -d) leave for memory of its own.
double left_of_limits() {
  double least = std::numeric_limits<double>::infinity();
  const auto take = [&](auto resource, const char* used_name) {
    rlimit limit{};
    const double used = kibibytes_of("/proc/self/status", used_name);
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || used < 0) return;
    least = std::min(least, std::max(0.0, static_cast<double>(limit.rlim_cur) - used));
  };
  take(RLIMIT_AS, "VmSize:");
  take(RLIMIT_DATA, "VmData:");
  return least;
}

void require_bytes(double bytes, double left, const std::string& what, const char* memory) {
  HALOGRAD_REQUIRE(bytes <= left, what, " take ", 1e-9 * bytes, " GB, but only ", 1e-9 * left, " GB of ", memory,
                   " are free; a smaller batch needs less");
}

}  // namespace

double peak_memory() {
  const double peak = kibibytes_of("/proc/self/status", "VmHWM:");
  if (peak >= 0) return peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void restart_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

double available_memory() {
  const double machine = kibibytes_of("/proc/meminfo", "MemAvailable:");
  return std::min(machine < 0 ? std::numeric_limits<double>::infinity() : machine, left_in_groups());
}

void require_memory(double bytes, const std::string& what) {
  require_bytes(bytes, std::min(available_memory(), left_of_limits()), what, "memory");
}

void require_kernel_memory(double bytes, const std::string& what) {
  runs_on_host ? require_memory(bytes, what)
               : require_bytes(bytes, free_accelerator_memory(), what, "the device's memory");
}

void prefer_large_pages(void* begin, std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  // A wish: where the kernel has no such pages, small ones do.
  if (first < end) madvise(static_cast<std::byte*>(begin) + (first - address), end - first, MADV_HUGEPAGE);
#else
  static_cast<void>(begin);
  static_cast<void>(bytes);
#endif
}

}  // namespace halograd
