#include "app/shape_argument.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <vector>

#include "kernels/error.hpp"

namespace halograd {

Shape parse_shape(const std::string& text, const std::string& where) {
  std::istringstream in(text);
  std::vector<int> numbers;
  char times = 'x';
  for (int number = 0; times == 'x' && in >> number; in >> times) {
    numbers.push_back(number);
    times = 0;
  }
  const bool positive = std::all_of(numbers.begin(), numbers.end(), [](int number) { return number > 0; });
  HALOGRAD_REQUIRE(in.eof() && times == 0 && positive && numbers.size() >= 2 && numbers.size() <= 4, where, " is '",
                   text, "', expected ", shape_form, ", for example 32x32x3");
  const int axes = static_cast<int>(numbers.size()) - 1;
  std::array<int, 3> extents{1, 1, 1};
  std::copy_n(numbers.begin(), axes, extents.end() - axes);
  return {extents, numbers.back(), axes};
}

Shape parse_size(const std::string& text) {
  int height = 0, width = 0, end = 0;
  const int read = std::sscanf(text.c_str(), "%dx%d%n", &height, &width, &end);
  HALOGRAD_REQUIRE(
      read == 2 && end == static_cast<int>(text.size()) && height > 0 && width > 0 && height <= 65535 && width <= 65535,
      "--size is '", text, "', expected HEIGHTxWIDTH, for example 64x64");
  return {height, width, 0};
}

}  // namespace halograd
