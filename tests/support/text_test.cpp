#include "support/text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/progress.hpp"

namespace halograd::text_test {
namespace {

TEST(Text, FormatIsAsLongAsItsValues) {
  EXPECT_EQ(format("%d of %s", 3, "four"), "3 of four");
  EXPECT_EQ(format("%s", std::string(5000, 'x').c_str()), std::string(5000, 'x'));
  EXPECT_EQ(format("plain"), "plain");
}

TEST(Text, NumbersReadBackOrAreRounded) {
  for (const double value : {0.1, 1.0, 1e-05, 1.0 / 3, 431080.0, std::numeric_limits<double>::min()})
    EXPECT_EQ(std::stod(short_number(value)), value);
  EXPECT_EQ(short_number(0.1), "0.1");
  EXPECT_EQ(short_number(1), "1");
  EXPECT_EQ(significant(2.0 / 3), "0.6667");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1234567.4), "1,234,567");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
}

TEST(Text, BytesHaveThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(45200), "45.2 kB");
  EXPECT_EQ(human_bytes(1724320), "1.72 MB");
  EXPECT_EQ(human_bytes(999.6e6), "1.00 GB");
  EXPECT_EQ(human_bytes(5e15), "5000 TB");
}

TEST(Text, TimesHaveMinutesAndSeconds) {
  EXPECT_EQ(human_time(-1), "0:00");
  EXPECT_EQ(human_time(59.6), "1:00");
  EXPECT_EQ(human_time(3723), "1:02:03");
}

TEST(Text, ListsAndCounts) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(7.5e9, "step"), "7500000000 steps");
  EXPECT_EQ(listed(std::vector<std::string>{"a", "", "c"}), "a, , c");
  EXPECT_EQ(listed(std::vector<std::string>{"", "b"}), ", b");
  EXPECT_EQ(listed(std::vector<long>{3, 4}, " x "), "3 x 4");
  EXPECT_EQ(listed(std::vector<long>{}), "");
}

TEST(Text, AShellReadsAWordBack) {
  EXPECT_EQ(shell_word("inputs/digits.toml"), "inputs/digits.toml");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

TEST(Text, SlipsAreRecognised) {
  EXPECT_EQ(edit_distance("epochs", "epochs"), 0);
  EXPECT_EQ(edit_distance("epcohs", "epochs"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(did_you_mean("epoch", {"batch", "epochs"}), "; did you mean \"epochs\"?");
  EXPECT_EQ(did_you_mean("topology", {"batch", "epochs"}), "");
}

TEST(Progress, ABarIsFilledByItsShare) {
  EXPECT_EQ(bar(0, 4), "[....]");
  EXPECT_EQ(bar(0.5, 4), "[##..]");
  EXPECT_EQ(bar(1, 4), "[####]");
  EXPECT_EQ(bar(1.7, 4), "[####]");
  EXPECT_EQ(bar(-1, 4), "[....]");
}

}  // namespace
}  // namespace halograd::text_test
