#include "support/table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>

namespace halograd::table_test {
namespace {

struct Shape {
  const char* name;
  Fact<int> corners;
  Fact<bool (*)(double)> fits;
};

const std::array<Shape, 2> shapes{Shape{.name = "triangle", .corners = 3, .fits = [](double x) { return x > 1; }},
                                  Shape{.name = "square", .corners = 4, .fits = [](double x) { return x < 1; }}};

TEST(Table, FindsRowsByName) {
  EXPECT_EQ(row_of(shapes, "square", "shape").corners, 4);
  EXPECT_TRUE(row_of(shapes, "triangle", "shape").fits(2));
  EXPECT_EQ(find_row(shapes, "circle"), nullptr);
  EXPECT_EQ(names_of(shapes), (std::vector<std::string>{"triangle", "square"}));
}

TEST(Table, RefusesOtherNamesWithTheKeyAndTheChoices) {
  try {
    static_cast<void>(row_of(shapes, "circle", "drawing.shape"));
    FAIL() << "a circle was found";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "drawing.shape is \"circle\"; expected one of triangle, square");
  }
}

// A row that leaves a fact out does not compile, since nothing can stand in for it.
static_assert(!std::is_default_constructible_v<Fact<int>>);

}  // namespace
}  // namespace halograd::table_test
