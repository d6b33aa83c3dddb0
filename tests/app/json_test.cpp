#include "app/json.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace halograd::json_test {
namespace {

template <class Value>
std::string text_of(const Value& value) {
  JsonObject object;
  object.add("k", value);
  const std::string text = object.text();
  EXPECT_EQ(text.substr(0, 6), "{\"k\": ");
  return text.substr(6, text.size() - 7);
}

TEST(Json, WritesValuesAsTheStandardSays) {
  EXPECT_EQ(JsonObject().text(), "{}");
  EXPECT_EQ(text_of(true), "true");
  EXPECT_EQ(text_of(-7), "-7");
  EXPECT_EQ(text_of(std::numeric_limits<std::int64_t>::max()), "9223372036854775807");
  EXPECT_EQ(text_of("Zürich"), "\"Zürich\"");
  EXPECT_EQ(text_of(std::string("a \"b\" \\ \n \t \x01")), R"("a \"b\" \\ \n \u0009 \u0001")");
  EXPECT_EQ(text_of(std::vector<long>{1, 2}), "[1, 2]");
  EXPECT_EQ(text_of(std::vector<std::string>{}), "[]");
}

TEST(Json, DoublesComeBackAsTheyWere) {
  for (const double value : {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, -2.5, 0.0, 1e22}) {
    EXPECT_EQ(std::strtod(text_of(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(text_of(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(text_of(-std::numeric_limits<double>::infinity()), "null");
}

TEST(Json, KeepsTheOrderAndNests) {
  JsonObject inner, object;
  inner.add("z", 1);
  object.add("b", inner);
  object.add("a", std::vector<JsonObject>{inner, inner});
  EXPECT_EQ(object.text(), R"({"b": {"z": 1}, "a": [{"z": 1}, {"z": 1}]})");
}

}  // namespace
}  // namespace halograd::json_test
