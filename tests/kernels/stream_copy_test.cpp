#include "kernels/stream_copy.hpp"

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::stream_copy_test {
namespace {

TEST(StreamCopyTest, CopiesFromAndToAnyPlaceAndNothingBeside) {
  const Kokkos::DefaultHostExecutionSpace exec;
  constexpr std::size_t margin = 8;
  for (const std::size_t length : {0, 1, 3, 4, 5, 4095, 4096, 10001}) {
    const std::vector<float> from = noise<float>(length + margin, length);
    for (std::size_t source = 0; source < 2; ++source) {
      for (std::size_t target = 0; target < 5; ++target) {
        std::vector<float> to(length + margin, 7.0F);
        std::vector<float> expected = to;
        std::copy_n(from.begin() + static_cast<long>(source), length, expected.begin() + static_cast<long>(target));
        stream_copy(exec, HostVector<const float>(from.data() + source, length),
                    HostVector<float>(to.data() + target, length));
        ASSERT_EQ(to, expected) << length << " values from " << source << " to " << target;
      }
    }
  }
  std::vector<float> three(3), four(4);
  EXPECT_THROW(stream_copy(exec, HostVector<const float>(three.data(), 3), HostVector<float>(four.data(), 4)), Error);
}

}  // namespace
}  // namespace halograd::stream_copy_test
