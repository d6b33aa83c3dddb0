#include "kernels/accelerator.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/types.hpp"

namespace halograd {
namespace {

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
}  // namespace halograd
