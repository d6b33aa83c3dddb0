#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

/// The main function of every serial test executable.
int main(int argc, char* argv[]) {
  ::testing::InitGoogleTest(&argc, argv);
  // The build lists the tests on machines that need not have the device.
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return RUN_ALL_TESTS();
}
