#include "kernels/accelerator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/chunks.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::accelerator_test {
namespace {

/// What a kernel finds in the arguments that it was given between and after views.
std::vector<double> arguments_on_the_device(double between, long after) {
  const Buffer<double> result("result", 3);
  const Buffer<double> view = to_device(std::vector<double>{3});
  const Vector<double> found = result;
  Kokkos::parallel_for(
      "arguments", FlatRange(ExecutionSpace(), 0, 1), KOKKOS_LAMBDA(const long) {
        found(0) = view(0);
        found(1) = between;
        found(2) = static_cast<double>(after);
      });
  return to_host(result);
}

// Host and device compilers once disagreed about the size of a view (kokkos/kokkos#8615).
TEST(Accelerator, FindsTheArgumentsOfItsKernels) {
  EXPECT_EQ(arguments_on_the_device(5, 7), (std::vector<double>{3, 5, 7}));
}

TEST(Accelerator, IsThereWhereTheBuildIsForOne) {
  EXPECT_EQ(accelerators() > 0, !runs_on_host);
  EXPECT_EQ(std::isinf(free_accelerator_memory()), runs_on_host);
  EXPECT_EQ(accelerator_address(0).empty(), runs_on_host);
  EXPECT_NO_THROW(require_code_for(0));
  EXPECT_EQ(accelerator_maker() == AcceleratorMaker::none, runs_on_host);
  if (runs_on_host) {
    EXPECT_FALSE(has_matrix_units());
  }
}

}  // namespace
}  // namespace halograd::accelerator_test
