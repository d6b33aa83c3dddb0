#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/kernels/golden_optimizer.hpp"

namespace halograd::optimizer_test {
namespace {

template <class T>
class OptimizerTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(OptimizerTest, Reals);

/// The golden values repeated, so that whole vectors, whole chunks and remainders all occur.
constexpr std::size_t copies = 1500;

template <class T>
std::vector<T> repeated(const double (&values)[golden::length]) {
  std::vector<T> result;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    for (const double value : values) result.push_back(static_cast<T>(value));
  }
  return result;
}

/// Takes the golden steps with `step(count, x, gradient)` and compares after each.
template <class T, class Step>
void follow(const double (&expected)[golden::steps][golden::length], const Step& step) {
  const auto x = to_device(repeated<T>(golden::start));
  for (int k = 0; k < golden::steps; ++k) {
    step(k + 1, x, to_device(repeated<T>(golden::gradients[k])));
    const auto found = to_host(x);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double golden_value = expected[k][i % golden::length];
      const double relative = std::is_same_v<T, float> ? 2e-6 : 1e-13;
      ASSERT_NEAR(found[i], golden_value, relative * std::max(0.1, std::abs(golden_value))) << "step " << k << " " << i;
    }
  }
}

template <class T>
Buffer<T> zeros() {
  return Buffer<T>("zeros", copies * golden::length);
}

template <class T>
void follow_sgd(const double (&expected)[golden::steps][golden::length], const SgdStep& sgd_step) {
  const ExecutionSpace exec;
  const auto velocity = sgd_step.momentum == 0 ? Buffer<T>() : zeros<T>();
  follow<T>(expected, [&](int, const Buffer<T>& x, const Buffer<T>& gradient) {
    sgd<T>(exec, sgd_step, x, gradient, velocity);
    exec.fence();
  });
}

template <class T>
void follow_adam(const double (&expected)[golden::steps][golden::length], AdamStep adam_step) {
  const ExecutionSpace exec;
  const auto first = zeros<T>();
  const auto second = zeros<T>();
  follow<T>(expected, [&](int count, const Buffer<T>& x, const Buffer<T>& gradient) {
    adam_step.count = count;
    adam<T>(exec, adam_step, x, gradient, first, second);
    exec.fence();
  });
}

template <class T>
void follow_adagrad(const double (&expected)[golden::steps][golden::length], const AdagradStep& adagrad_step) {
  const ExecutionSpace exec;
  const auto sum = zeros<T>();
  follow<T>(expected, [&](int, const Buffer<T>& x, const Buffer<T>& gradient) {
    adagrad<T>(exec, adagrad_step, x, gradient, sum);
    exec.fence();
  });
}

TYPED_TEST(OptimizerTest, SgdTakesPyTorchsSteps) {
  follow_sgd<TypeParam>(golden::sgd, {0.05, 0, 0, false});
  follow_sgd<TypeParam>(golden::sgd_decay, {0.05, 0, 0.01, false});
  follow_sgd<TypeParam>(golden::sgd_momentum, {0.05, 0.9, 1e-4, false});
  follow_sgd<TypeParam>(golden::sgd_nesterov, {0.05, 0.9, 1e-3, true});
}

TYPED_TEST(OptimizerTest, AdamTakesPyTorchsSteps) {
  follow_adam<TypeParam>(golden::adam, {0.01, 0.9, 0.999, 1e-8, 0, false, 1});
  follow_adam<TypeParam>(golden::adam_decay, {0.01, 0.8, 0.95, 1e-6, 0.1, false, 1});
  follow_adam<TypeParam>(golden::adamw, {0.01, 0.9, 0.999, 1e-8, 0.1, true, 1});
}

TYPED_TEST(OptimizerTest, AdagradTakesPyTorchsSteps) {
  follow_adagrad<TypeParam>(golden::adagrad, {0.1, 1e-10, 0});
  follow_adagrad<TypeParam>(golden::adagrad_decay, {0.1, 1e-6, 0.05});
}

TYPED_TEST(OptimizerTest, NothingToDoForNoParameters) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Buffer<T> none;
  sgd<T>(exec, {0.1, 0.9, 0, true}, none, none, none);
  adam<T>(exec, {0.1, 0.9, 0.999, 1e-8, 0, false, 1}, none, none, none, none);
  adagrad<T>(exec, {0.1, 1e-10, 0}, none, none, none);
  exec.fence();
}

TYPED_TEST(OptimizerTest, RefusesStateOfAnotherLength) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Buffer<T> x("x", 4);
  const Buffer<T> shorter("shorter", 3);
  EXPECT_THROW(sgd<T>(exec, {0.1, 0, 0, false}, x, shorter, x), Error);
  EXPECT_THROW(sgd<T>(exec, {0.1, 0.9, 0, false}, x, x, Buffer<T>()), Error);
  EXPECT_THROW(adam<T>(exec, {0.1, 0.9, 0.999, 1e-8, 0, false, 1}, x, x, shorter, x), Error);
  EXPECT_THROW(adam<T>(exec, {0.1, 0.9, 0.999, 1e-8, 0, false, 1}, x, x, x, shorter), Error);
  EXPECT_THROW(adam<T>(exec, {0.1, 0.9, 0.999, 1e-8, 0, false, 0}, x, x, x, x), Error);
  EXPECT_THROW(adagrad<T>(exec, {0.1, 1e-10, 0}, x, x, shorter), Error);
}

}  // namespace
}  // namespace halograd::optimizer_test
