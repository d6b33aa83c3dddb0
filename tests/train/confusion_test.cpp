#include "train/confusion.hpp"

#include <gtest/gtest.h>

namespace halograd::confusion_test {
namespace {

TEST(Confusion, CountsWhatIsTakenForWhat) {
  Confusion confusion(3);
  confusion.add(std::vector<std::int32_t>{0, 1, 1},
                std::vector<float>{0.5F, 0.5F, 0.0F, 0.1F, 0.2F, 0.7F, 0.1F, 0.8F, 0.1F});
  confusion.add({}, {});
  EXPECT_EQ(confusion.count(0, 0), 1);  // the first of equals
  EXPECT_EQ(confusion.count(1, 2), 1);
  EXPECT_EQ(confusion.count(1, 1), 1);
  EXPECT_EQ(confusion.labels(1), 2);
  EXPECT_EQ(confusion.accuracy(0), 1.0);
  EXPECT_EQ(confusion.accuracy(1), 0.5);
  EXPECT_EQ(confusion.accuracy(2), 0.0);  // no labels
}

TEST(Confusion, OneScoreIsThatOfTheSecondOfTwoClasses) {
  Confusion confusion(2);
  confusion.add(std::vector<std::int32_t>{0, 1, 1, 0}, std::vector<float>{0.5F, 0.75F, 0.25F, 0.75F});
  EXPECT_EQ(confusion.count(0, 0), 1);
  EXPECT_EQ(confusion.count(0, 1), 1);
  EXPECT_EQ(confusion.count(1, 0), 1);
  EXPECT_EQ(confusion.count(1, 1), 1);
}

}  // namespace
}  // namespace halograd::confusion_test
