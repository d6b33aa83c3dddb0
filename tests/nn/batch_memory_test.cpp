#include "nn/batch_memory.hpp"

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::batch_memory_test {
namespace {

/// A batch of `size` images of 2 x 3 x 1, which no other has.
struct Numbers {
  Numbers(int batch, std::uint64_t seed, const Target& target)
      : size(batch),
        images(noise<float>(6UL * static_cast<std::size_t>(batch), seed)),
        labels(target.target_values > 0 ? 0 : static_cast<std::size_t>(batch * target.labels_per_image),
               static_cast<std::int32_t>(seed)),
        targets(noise<float>(static_cast<std::size_t>(batch * target.labels_per_image * target.target_values), seed)) {}
  [[nodiscard]] HostBatch host() const { return {size, images.data(), labels.data(), targets.data()}; }

  int size;
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<float> targets;
};

void expect_same(const DeviceBatch& found, const Numbers& expected) {
  EXPECT_EQ(to_host(found.images), expected.images);
  EXPECT_EQ(to_host(found.labels), expected.labels);
  EXPECT_EQ(to_host(found.targets), expected.targets);
}

std::vector<Target> targets() {
  Target numbers(0, 1);
  numbers.target_values = 2;
  return {Target(3), Target(2, 6), numbers};
}

// In device memory, also where the device is the host: the two places and their order are the same.
TEST(BatchMemory, EachLoadGivesItsBatchWhetherItCameAheadOrNot) {
  const ExecutionSpace exec;
  for (const Target& target : targets()) {
    BatchMemory memory({2, 3, 1}, target, 4, false);
    const Numbers a(4, 1, target), b(3, 2, target), c(4, 3, target), d(1, 4, target);
    DeviceBatch work = memory.load(exec, a.host());
    memory.prefetch(b.host());
    expect_same(work, a);  // not touched by what comes
    work = memory.load(exec, b.host());
    memory.prefetch(c.host());
    expect_same(work, b);
    work = memory.load(exec, d.host());  // another one than was announced
    expect_same(work, d);
    work = memory.load(exec, c.host());
    memory.prefetch({});
    expect_same(work, c);
    memory.prefetch(d.host());
    work = memory.load(exec, c.host());  // the same again, as after a step that was not finite
    expect_same(work, c);
    expect_same(memory.load(exec, d.host()), d);
  }
}

TEST(BatchMemory, ABatchThatCameAheadIsNotReadAgain) {
  const ExecutionSpace exec;
  const Target target(3);
  BatchMemory memory({2, 3, 1}, target, 4, false);
  const Numbers a(4, 1, target), b(4, 2, target);
  Numbers changed = b;
  memory.load(exec, a.host());
  memory.prefetch(changed.host());
  const HostBatch announced = changed.host();
  if (runs_on_host) changed.images.assign(changed.images.size(), 7.0F);  // copies are done at once
  expect_same(memory.load(exec, announced), b);
  changed.images.assign(changed.images.size(), 8.0F);
  EXPECT_EQ(to_host(memory.load(exec, announced).images), changed.images);  // not announced: read now
}

TEST(BatchMemory, OnCoresBatchesAreReadInPlace) {
  if (!runs_on_host) GTEST_SKIP() << "batches are copied to " << ExecutionSpace::name();
  const Target target(3);
  BatchMemory memory({2, 3, 1}, target, 4);
  const Numbers a(4, 1, target), b(2, 2, target);
  memory.prefetch(b.host());
  EXPECT_EQ(memory.load(ExecutionSpace(), a.host()).images.data(), a.images.data());
  EXPECT_EQ(memory.load(ExecutionSpace(), b.host()).images.data(), b.images.data());
}

TEST(BatchMemory, RefusesBatchesThatDoNotFit) {
  const Target target(3);
  BatchMemory memory({2, 3, 1}, target, 4, false);
  const Numbers large(5, 1, target);
  memory.prefetch(large.host());
  EXPECT_THROW(memory.load(ExecutionSpace(), large.host()), Error);
  EXPECT_THROW(memory.load(ExecutionSpace(), HostBatch()), Error);
}

}  // namespace
}  // namespace halograd::batch_memory_test
