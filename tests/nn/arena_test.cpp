#include "nn/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace halograd::arena_test {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) {
  return a.birth <= b.death && b.birth <= a.death;
}

TEST(Arena, BuffersThatLiveTogetherDoNotOverlap) {
  std::mt19937 generator(5);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers(static_cast<std::size_t>(draw(1, 30)));
    for (Lifetime& buffer : buffers) {
      buffer.bytes = static_cast<std::size_t>(draw(0, 5) == 0 ? 0 : draw(1, 2000));
      buffer.birth = draw(0, 40);
      buffer.death = buffer.birth + draw(0, 20);
    }
    const ArenaPlan plan = plan_arena(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0U);
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        if (buffers[i].bytes == 0 || buffers[j].bytes == 0 || !meet(buffers[i], buffers[j])) continue;
        EXPECT_TRUE(plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                    plan.offsets[j] + buffers[j].bytes <= plan.offsets[i]);
      }
    }
  }
}

TEST(Arena, ReusesWhatIsDead) {
  // A chain: each buffer meets only its neighbours, so two places are enough.
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({640, i, i + 1});
  EXPECT_EQ(plan_arena(chain).bytes, 2 * 640U);
}

TEST(Arena, NothingNeedsNothing) {
  EXPECT_EQ(plan_arena({}).bytes, 0U);
}

}  // namespace
}  // namespace halograd::arena_test
