#include "kernels/step_recorder.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kernels/compat.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::step_recorder_test {
namespace {

/// Adds `amount` to all values, as kernels of a step do.
void add_to(const ExecutionSpace& exec, const Vector<float>& values, float amount) {
  Kokkos::parallel_for(
      "add", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, values.extent(0)),
      KOKKOS_LAMBDA(const std::size_t i) { values(i) += amount; });
}

StepRecorder::Key key_of(const Buffer<float>& values) {
  return {static_cast<long>(values.size()), {values.data()}};
}

// On a device the third run and those after it are replays.
TEST(StepRecorder, EachRunDoesTheWorkOnceAndInOrder) {
  const ExecutionSpace exec;
  StepRecorder recorder;
  const auto first = to_device<float>({1, 2, 3}), second = to_device<float>({10, 20, 30});
  const auto other = to_device<float>({5});
  int calls = 0;
  for (int run = 1; run <= 5; ++run) {
    for (const auto& values : {first, second, other}) {
      recorder.run(exec, key_of(values), [&](const ExecutionSpace& on) {
        ++calls;
        add_to(on, values, 1);
        add_to(on, values, 2);
      });
    }
    const auto sum = 3 * static_cast<float>(run);
    EXPECT_EQ(to_host(first), (std::vector<float>{1 + sum, 2 + sum, 3 + sum}));
    EXPECT_EQ(to_host(second), (std::vector<float>{10 + sum, 20 + sum, 30 + sum}));
    EXPECT_EQ(to_host(other), (std::vector<float>{5 + sum}));
  }
  // Recorded: two calls each for the first size, five for the other.
  EXPECT_EQ(calls, runs_on_host || !launches_repeat ? 15 : 9);
  EXPECT_EQ(recorder.refusal().empty(), runs_on_host || launches_repeat);
}

TEST(StepRecorder, WhatHasChangedIsRunAfterClear) {
  const ExecutionSpace exec;
  StepRecorder recorder;
  const auto values = to_device<float>({0});
  float amount = 1;
  for (int run = 0; run < 6; ++run) {
    if (run == 3) {
      amount = 100;
      recorder.clear();
    }
    recorder.run(exec, key_of(values), [&](const ExecutionSpace& on) { add_to(on, values, amount); });
  }
  EXPECT_EQ(to_host(values), (std::vector<float>{303}));
}

}  // namespace
}  // namespace halograd::step_recorder_test
