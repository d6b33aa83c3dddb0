#include "data/sharding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/random.hpp"

namespace halograd::sharding_test {
namespace {

TEST(Sharding, SharesAreDisjointCoverAllAndAreEven) {
  for (const long count : {0L, 1L, 7L, 8L, 60001L, 4000000000L})
    for (const int ranks : {1, 2, 3, 4, 7, 8, 1000}) {
      long end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range share = share_of(count, rank, ranks);
        ASSERT_EQ(share.begin, end);
        ASSERT_EQ(share.end, count * (rank + 1) / ranks);
        ASSERT_LE(std::abs(share.size() - count / ranks), 1);
        end = share.end;
      }
      ASSERT_EQ(end, count);
    }
}

TEST(Sharding, DropsALastStepOfFewerImagesThanRanks) {
  EXPECT_EQ(steps_of(60000, 128, 4), 469);
  EXPECT_EQ(steps_of(128 * 5, 128, 4), 5);
  EXPECT_EQ(steps_of(128 * 5 + 3, 128, 4), 5);
  EXPECT_EQ(steps_of(128 * 5 + 4, 128, 4), 6);
  EXPECT_EQ(steps_of(128 * 5 + 1, 128, 1), 6);
}

TEST(Sharding, PermutationHoldsEveryImageOnce) {
  for (const long size : {1L, 2L, 17L, 1438L}) {
    std::vector<long> order = epoch_permutation(size, 3, 5);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order.size(), static_cast<std::size_t>(size));
    for (long i = 0; i < size; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

TEST(Sharding, PermutationIsAFunctionOfSeedAndEpoch) {
  const std::vector<long> order = epoch_permutation(1000, 3, 5);
  EXPECT_EQ(order, epoch_permutation(1000, 3, 5));
  EXPECT_NE(order, epoch_permutation(1000, 3, 6));
  EXPECT_NE(order, epoch_permutation(1000, 4, 5));
  EXPECT_NE(epoch_permutation(1000, 5, 3), order);  // the two are not merely added
}

/// All 24 orders of four things are equally likely: chi-square with 23 degrees of freedom, 1e-4 quantile.
TEST(Sharding, PermutationsAreUniform) {
  constexpr int draws = 24000;
  std::vector<int> count(4 * 4 * 4 * 4);
  for (long epoch = 0; epoch < draws; ++epoch) {
    const std::vector<long> order = epoch_permutation(4, 11, epoch);
    ++count[static_cast<std::size_t>(((order[0] * 4 + order[1]) * 4 + order[2]) * 4 + order[3])];
  }
  double chi_square = 0;
  int seen = 0;
  for (const int n : count)
    if (n > 0) {
      ++seen;
      chi_square += (n - draws / 24.0) * (n - draws / 24.0) / (draws / 24.0);
    }
  EXPECT_EQ(seen, 24);
  EXPECT_LT(chi_square, 56.0);
}

TEST(Sharding, BoundedIsTheHighHalfOfTheProduct) {
  EXPECT_EQ(bounded(0, 10), 0U);
  EXPECT_EQ(bounded(~0ULL, 10), 9U);
  EXPECT_EQ(bounded(1ULL << 63U, 10), 5U);
  EXPECT_EQ(bounded((1ULL << 63U) - 1, 10), 4U);
  EXPECT_EQ(bounded(~0ULL, 1ULL << 32U), 0xffffffffU);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t word = random_bits(1, i);
    const std::uint64_t bound = (random_bits(2, i) >> 32U) + 1;
    // Long double holds both factors; its product is off by less than one part in 2^60 at most.
    const long double exact = std::ldexp(static_cast<long double>(word), -64) * static_cast<long double>(bound);
    EXPECT_NEAR(static_cast<double>(bounded(word, bound)), static_cast<double>(exact), 1.0);
  }
}

TEST(ShareByWeight, CoversAllInProportionWithinItsLimits) {
  const std::vector<std::vector<double>> cases{{1, 1, 1, 0.5}, {1}, {3, 1}, {1e-9, 1, 1}, {5, 1, 1, 1, 1, 1, 1, 1}};
  for (const auto& weights : cases) {
    const auto ranks = static_cast<long>(weights.size());
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (long count = ranks; count < 40 * ranks; count += 7) {
      const long most = 2 * ((count + ranks - 1) / ranks);
      long at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range share = share_by_weight(count, rank, weights, most);
        EXPECT_EQ(share.begin, at);
        EXPECT_GE(share.size(), 1);
        EXPECT_LE(share.size(), most);
        at = share.end;
        const double ideal = static_cast<double>(count) * weights[static_cast<std::size_t>(rank)] / sum;
        const bool limited = std::any_of(weights.begin(), weights.end(), [&](double weight) {
          const double of_rank = static_cast<double>(count) * weight / sum;
          return of_rank < 1 || of_rank > static_cast<double>(most);
        });
        if (!limited) {
          EXPECT_LT(std::abs(static_cast<double>(share.size()) - ideal), 1) << count << " " << rank;
        }
      }
      EXPECT_EQ(at, count);
    }
  }
  EXPECT_EQ(share_by_weight(70, 3, {1, 1, 1, 0.5}, 40), (Range{60, 70}));
}

}  // namespace
}  // namespace halograd::sharding_test
