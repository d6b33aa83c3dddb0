#include "kernels/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::activation_test {
namespace {

constexpr double number = 0.125;  // leaky_relu's slope and tanh's scale

/// Beside the definitions in the header, what PyTorch 1.13 gives at -1.5 and 0.75 (torch.nn.functional).
struct Case {
  Activation function;
  double (*value)(double);
  double at_minus_1_5, at_0_75;
};

const Case cases[] = {
    {Activation::leaky_relu, [](double x) { return x > 0 ? x : number * x; }, -0.1875, 0.75},
    {Activation::relu6, [](double x) { return std::min(std::max(x, 0.0), 6.0); }, 0, 0.75},
    {Activation::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 0.18242552380635635, 0.679178699175393},
    {Activation::tanh, [](double x) { return number * std::tanh(x); }, number * -0.9051482536448664,
     number * 0.6351489523872873},
    {Activation::gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, -0.10021080190328704,
     0.5800294857173489},
    {Activation::silu, [](double x) { return x / (1 + std::exp(-x)); }, -0.2736382857095345, 0.5093840243815448},
};

template <class T>
std::vector<T> forward(Activation function, const std::vector<T>& x) {
  const Buffer<T> y("y", x.size());
  activation_forward<T>(ExecutionSpace(), function, number, to_device(x), y);
  ExecutionSpace().fence();
  return to_host(y);
}

TEST(ActivationTest, ValuesAreTheDefinitionsAndPyTorchs) {
  for (const Case& c : cases) {
    auto x = noise<double>(5000, 1, -8, 8);
    x[0] = -1.5;
    x[1] = 0.75;
    const auto y = forward(c.function, x);
    EXPECT_NEAR(y[0], c.at_minus_1_5, 1e-14);
    EXPECT_NEAR(y[1], c.at_0_75, 1e-14);
    const auto narrow = forward(c.function, std::vector<float>(x.begin(), x.end()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], c.value(x[i]), 1e-13) << x[i];
      ASSERT_NEAR(narrow[i], c.value(x[i]), 4e-6) << x[i];
    }
  }
}

TEST(ActivationTest, BackwardAgreesWithCentralDifferences) {
  for (const Case& c : cases) {
    auto x = noise<double>(300, 2, -7, 7);
    for (double& value : x) {  // away from the corners
      if (std::abs(value) < 1e-3 || std::abs(value - 6) < 1e-3) value = 0.5;
    }
    const auto weights = noise<double>(x.size(), 3), before = noise<double>(x.size(), 4);
    const auto known = differentiates_output(c.function) ? forward(c.function, x) : x;
    const auto overwritten = to_device(weights), added = to_device(before);
    activation_backward<double>(ExecutionSpace(), c.function, number, to_device(known), to_device(weights), added,
                                true);
    activation_backward<double>(ExecutionSpace(), c.function, number, to_device(known), overwritten, overwritten,
                                false);
    ExecutionSpace().fence();
    const auto gradient = to_host(overwritten), sum = to_host(added);
    expect_gradient([&](const auto& values) { return dot(weights, forward(c.function, values)); }, x, gradient, 1e-8);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(sum[i], before[i] + gradient[i], 1e-15);
  }
}

TEST(ActivationTest, ValuesStoredAsBf16AreRoundedOnce) {
  using T = Bfloat16;
  const auto wide = [](const auto& v) { return std::vector<double>(v.begin(), v.end()); };
  const auto expect_near = [](T found, double expected) {
    ASSERT_NEAR(found, expected, 4e-6 + storage_rounding<T> * std::abs(expected));
  };
  for (const Case& c : cases) {
    const auto x = noise<T>(5000, 5, -8, 8), dy = noise<T>(x.size(), 6), before = noise<T>(x.size(), 7);
    const auto y = forward(c.function, x);
    const auto known = differentiates_output(c.function) ? y : x;
    const auto dx = to_device(dy), added = to_device(before);
    const Buffer<double> gradient("gradient", x.size());
    const auto wide_known = to_device(wide(known)), wide_dy = to_device(wide(dy));
    activation_backward<T>(ExecutionSpace(), c.function, number, to_device(known), to_device(dy), added, true);
    activation_backward<T>(ExecutionSpace(), c.function, number, to_device(known), dx, dx, false);
    activation_backward<double>(ExecutionSpace(), c.function, number, wide_known, wide_dy, gradient, false);
    ExecutionSpace().fence();
    const auto found = to_host(dx), sum = to_host(added);
    const auto expected = to_host(gradient);
    for (std::size_t i = 0; i < x.size(); ++i) {
      expect_near(y[i], c.value(x[i]));
      expect_near(found[i], expected[i]);
      expect_near(sum[i], before[i] + expected[i]);
    }
  }
}

TEST(ActivationTest, FarOutNothingOverflowsAndNotANumberShows) {
  for (const Case& c : cases) {
    const auto y = forward<float>(c.function, {-1e30F, 1e30F, -200.0F, 200.0F, std::nanf("")});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(y[i])) << static_cast<int>(c.function) << " " << i;
    EXPECT_TRUE(std::isnan(y[4])) << static_cast<int>(c.function);
    const float wide = 200;
    const Buffer<float> dx("dx", 2);
    const auto known =
        differentiates_output(c.function) ? forward<float>(c.function, {-wide, wide}) : std::vector<float>{-wide, wide};
    activation_backward<float>(ExecutionSpace(), c.function, number, to_device(known), to_device<float>({1, 1}), dx,
                               false);
    ExecutionSpace().fence();
    for (const float value : to_host(dx)) EXPECT_TRUE(std::isfinite(value)) << static_cast<int>(c.function);
  }
}

TEST(ActivationTest, RefusesUnequalLengthsAndNegativeSlopes) {
  const Buffer<float> five("five", 5), six("six", 6);
  EXPECT_THROW(activation_forward<float>(ExecutionSpace(), Activation::silu, 0, five, six), Error);
  EXPECT_THROW(activation_backward<float>(ExecutionSpace(), Activation::silu, 0, five, six, six, false), Error);
  EXPECT_THROW(activation_forward<float>(ExecutionSpace(), Activation::leaky_relu, -0.1, six, six), Error);
}

}  // namespace
}  // namespace halograd::activation_test
