// Pairs of ranks: what is asked and answered arrives as it was given, however many ask the same rank at once.
#include "window/pair_window.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::pair_window_mpi_test {
namespace {

constexpr std::size_t length = 200'003;  // more than MPIs send along with its announcement

class PairWindowTest : public testing::TestWithParam<const char*> {
 protected:
  PairWindowTest() {
    const std::string way = GetParam();
    options_.force_put = way != "stores";
    options_.free_carrier = way == "puts" ? Carrier::put : Carrier::send;
  }
  TransportOptions options_;
};

/// A star: all others ask rank 0, which answers each with twice what it has sent, one right after the other.
TEST_P(PairWindowTest, EachRankGetsItsOwnAnswer) {
  Sides sides{std::vector<bool>(static_cast<std::size_t>(all_ranks()), true),
              Graph(static_cast<std::size_t>(all_ranks()), {0})};
  sides.asks[0] = false;
  sides.partners[0].clear();
  for (int rank = 1; rank < all_ranks(); ++rank) sides.partners[0].push_back(rank);
  PairWindow window(MPI_COMM_WORLD, sides, length, options_);
  const auto wrong = [](HostVector<const float> values, float expected) {
    long count = 0;
    for (std::size_t i = 0; i < length; ++i) count += values(i) != expected ? 1 : 0;
    return count;
  };
  std::vector<float> values(length);
  const HostVector<const float> sent(values.data(), length);
  for (int round = 1; round <= 10; ++round) {
    const auto of_rank = [&](int rank) { return static_cast<float>(100 * round + rank); };
    PolitePause pause;
    if (this_rank() > 0) {
      values.assign(length, of_rank(this_rank()));
      window.ask(0, sent, round);
      std::optional<HostVector<const float>> answer;
      for (; !answer; pause()) answer = window.answer(round);
      EXPECT_EQ(wrong(*answer, 2 * of_rank(this_rank())), 0) << "round " << round;
      continue;
    }
    for (int answered = 1; answered < all_ranks(); pause()) {
      const std::optional<std::size_t> partner = window.asked();
      if (!partner) continue;
      const float of_partner = window.question(*partner)(0);
      EXPECT_EQ(wrong(window.question(*partner), of_partner), 0) << "round " << round;
      values.assign(length, 2 * of_partner);
      window.reply(*partner, sent, round);
      ++answered;
    }
  }
  window.drain([&] { EXPECT_FALSE(window.asked()); });  // moves the last answers on
}

INSTANTIATE_TEST_SUITE_P(Ways, PairWindowTest, testing::Values("stores", "puts", "messages"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace halograd::pair_window_mpi_test
