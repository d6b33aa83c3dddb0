#include "window/halo_place.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/gpu_aware_mpi.hpp"
#include "tests/mpi/ranks.hpp"
#include "tests/window/device_halos.hpp"

namespace halograd::halo_place_mpi_test {
namespace {

constexpr std::size_t length = 10'000;

Topology topology_of(const std::string& kind) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, all_ranks());
}

HaloPlace chosen(const std::string& asked) {
  CommConfig config;
  config.device_windows = asked;
  return choose_halo_place(config, topology_of("ring"), MPI_COMM_WORLD, length);
}

TEST(HaloMemory, PatternsComeThroughDeviceWindows) {
  if (!device_halos_work()) GTEST_SKIP() << no_device_halos;
  for (const char* kind : {"ring", "exponential", "complete"}) {
    for (const bool force_put : {false, true}) {
      CommConfig config;
      config.force_put = force_put;
      EXPECT_NO_THROW(require_device_windows(MPI_COMM_WORLD, topology_of(kind), config, length)) << kind << force_put;
    }
  }
}

TEST(HaloMemory, OneWrongValueOfAPatternIsFound) {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = pattern_value(3, 2, i);
  const Buffer<float> halo("halo", values.size());
  const auto fault = [&] {
    Kokkos::deep_copy(halo, HostVector<const float>(values.data(), values.size()));
    return pattern_fault(halo, 3, 2);
  };
  EXPECT_EQ(fault(), "");
  EXPECT_NE(pattern_fault(halo, 2, 2), "");  // of another rank
  EXPECT_NE(pattern_fault(halo, 3, 1), "");  // of another slot
  values[999] = 7;
  const std::string found = fault();
  EXPECT_NE(found.find("1 of 1000 values from rank 3"), std::string::npos) << found;
  EXPECT_NE(found.find("number 999 as 7 instead of"), std::string::npos) << found;
}

// Whatever it says: the questions are put in a way that every MPI takes.
TEST(HaloMemory, MpiIsAskedForEveryMaker) {
  for (const auto maker : {AcceleratorMaker::nvidia, AcceleratorMaker::amd}) EXPECT_NO_THROW(mpi_says_gpu_aware(maker));
  EXPECT_FALSE(mpi_says_gpu_aware(AcceleratorMaker::none));
}

TEST(HaloMemory, OfCoresIsTheHosts) {
  if (!runs_on_host) GTEST_SKIP() << "kernels run on a device";
  EXPECT_FALSE(mpi_says_gpu_aware());
  for (const char* asked : {"auto", "off"}) {
    EXPECT_EQ(chosen(asked).memory, HaloMemory::host) << asked;
    EXPECT_EQ(chosen(asked).reason, "") << asked;  // nothing to tell where no rank has a device
  }
  try {
    chosen("on");
    FAIL() << "halos in the memory of a device that is not there";
  } catch (const CollectiveError& error) {
    EXPECT_STREQ(error.what(),
                 "comm.device_windows is \"on\", but the program of rank 0 was built for cores, not for devices");
  }
}

TEST(HaloMemory, KindsOfMemoryAreReadFromTheirList) {
  EXPECT_TRUE(has_memory_kind("mpi,system,cuda", "cuda"));
  EXPECT_TRUE(has_memory_kind("mpi,cuda:host,cuda:device", "cuda"));
  EXPECT_TRUE(has_memory_kind("rocm", "rocm"));
  EXPECT_FALSE(has_memory_kind("mpi,system,cuda:host", "cuda"));
  EXPECT_FALSE(has_memory_kind("mpi,system,cuda", "rocm"));
  EXPECT_FALSE(has_memory_kind("", "cuda"));
}

}  // namespace
}  // namespace halograd::halo_place_mpi_test
