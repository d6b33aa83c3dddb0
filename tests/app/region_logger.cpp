// A Kokkos tool: how often and for how long each region was open, and how many kernels each label has launched in it.
// Each process writes REGION_LOG.PID (REGION_LOG from the environment, else regions) when Kokkos ends, a line for each
// path:
//
//     seconds  times  forward/conv1
//
// It reads no clock of a device: where kernels run beside the host, a region's seconds are those of launching them.
// A tool is any library with some of these functions; Kokkos Tools has many: https://github.com/kokkos/kokkos-tools

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Sum {
  double seconds = 0;
  long times = 0;
};

struct Open {
  std::string path;
  Clock::time_point since;
};

std::map<std::string, Sum> sums;
std::vector<Open> open_regions;

std::string path_of(const char* name) {
  return open_regions.empty() ? name : open_regions.back().path + "/" + name;
}

}  // namespace

extern "C" {

void kokkosp_push_profile_region(const char* name) {
  open_regions.push_back({path_of(name), Clock::now()});
}

void kokkosp_pop_profile_region() {
  const Open& region = open_regions.back();
  Sum& sum = sums[region.path];
  sum.seconds += std::chrono::duration<double>(Clock::now() - region.since).count();
  ++sum.times;
  open_regions.pop_back();
}

void kokkosp_begin_parallel_for(const char* name, std::uint32_t /*device*/, std::uint64_t* /*kernel*/) {
  ++sums[path_of(name)].times;
}

void kokkosp_begin_parallel_reduce(const char* name, std::uint32_t device, std::uint64_t* kernel) {
  kokkosp_begin_parallel_for(name, device, kernel);
}

void kokkosp_begin_parallel_scan(const char* name, std::uint32_t device, std::uint64_t* kernel) {
  kokkosp_begin_parallel_for(name, device, kernel);
}

void kokkosp_finalize_library() {
  const char* const file = std::getenv("REGION_LOG");
  const std::string path = std::string(file != nullptr ? file : "regions") + "." + std::to_string(getpid());
  std::FILE* const out = std::fopen(path.c_str(), "w");
  if (out == nullptr) return std::perror(path.c_str());
  for (const auto& [name, sum] : sums) std::fprintf(out, "%.6f %ld %s\n", sum.seconds, sum.times, name.c_str());
  std::fclose(out);
}
}
