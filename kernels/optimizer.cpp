#include "kernels/optimizer.hpp"

#include <cmath>

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

void require_length(const char* kernel, const char* what, std::size_t found, std::size_t expected) {
  HALOGRAD_REQUIRE(found == expected, kernel, ": ", what, " has ", found, " values, the parameters have ", expected);
}

}  // namespace

template <class T>
void sgd(const ExecutionSpace& exec, const SgdStep& step, Vector<T> x, Vector<const T> gradient, Vector<T> velocity) {
  require_length("sgd", "gradient", gradient.extent(0), x.extent(0));
  const auto rate = static_cast<T>(step.rate);
  const auto momentum = static_cast<T>(step.momentum);
  const auto decay = static_cast<T>(step.weight_decay);
  const T* from = gradient.data();
  T* parameters = x.data();
  T* moving = velocity.data();
  const long length = static_cast<long>(x.extent(0));
  if (step.momentum == 0) {
    for_each_chunk(
        exec, "halograd::sgd", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            parameters[i] -= rate * (from[i] + decay * parameters[i]);
          }
        });
    return;
  }
  require_length("sgd", "velocity", velocity.extent(0), x.extent(0));
  if (step.nesterov) {
    for_each_chunk(
        exec, "halograd::sgd_nesterov", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            const T g = from[i] + decay * parameters[i];
            const T v = momentum * moving[i] + g;
            moving[i] = v;
            parameters[i] -= rate * (g + momentum * v);
          }
        });
  } else {
    for_each_chunk(
        exec, "halograd::sgd_momentum", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            const T v = momentum * moving[i] + (from[i] + decay * parameters[i]);
            moving[i] = v;
            parameters[i] -= rate * v;
          }
        });
  }
}

template <class T>
void adam(const ExecutionSpace& exec, const AdamStep& step, Vector<T> x, Vector<const T> gradient,
          Vector<T> first_moment, Vector<T> second_moment) {
  require_length("adam", "gradient", gradient.extent(0), x.extent(0));
  require_length("adam", "first moment", first_moment.extent(0), x.extent(0));
  require_length("adam", "second moment", second_moment.extent(0), x.extent(0));
  HALOGRAD_REQUIRE(step.count >= 1, "adam: step number ", step.count, ", the first is 1");
  const double count = static_cast<double>(step.count);
  const auto beta1 = static_cast<T>(step.beta1);
  const auto beta2 = static_cast<T>(step.beta2);
  const auto rest1 = static_cast<T>(1 - step.beta1);
  const auto rest2 = static_cast<T>(1 - step.beta2);
  const auto rate = static_cast<T>(step.rate / (1 - std::pow(step.beta1, count)));
  const auto root_factor = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, count)));
  const auto epsilon = static_cast<T>(step.epsilon);
  const auto coupled_decay = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  const auto shrink = static_cast<T>(step.decoupled ? 1 - step.rate * step.weight_decay : 1);
  const T* from = gradient.data();
  T* parameters = x.data();
  T* first = first_moment.data();
  T* second = second_moment.data();
  for_each_chunk(
      exec, "halograd::adam", static_cast<long>(x.extent(0)), KOKKOS_LAMBDA(const long begin, const long end) {
        HALOGRAD_IVDEP
        for (long i = begin; i < end; ++i) {
          const T g = from[i] + coupled_decay * parameters[i];
          const T m = beta1 * first[i] + rest1 * g;
          const T v = beta2 * second[i] + rest2 * g * g;
          first[i] = m;
          second[i] = v;
          parameters[i] = shrink * parameters[i] - rate * m / (math::sqrt(v) * root_factor + epsilon);
        }
      });
}

template <class T>
void adagrad(const ExecutionSpace& exec, const AdagradStep& step, Vector<T> x, Vector<const T> gradient,
             Vector<T> sum) {
  require_length("adagrad", "gradient", gradient.extent(0), x.extent(0));
  require_length("adagrad", "sum", sum.extent(0), x.extent(0));
  const auto rate = static_cast<T>(step.rate);
  const auto epsilon = static_cast<T>(step.epsilon);
  const auto decay = static_cast<T>(step.weight_decay);
  const T* from = gradient.data();
  T* parameters = x.data();
  T* squares = sum.data();
  for_each_chunk(
      exec, "halograd::adagrad", static_cast<long>(x.extent(0)), KOKKOS_LAMBDA(const long begin, const long end) {
        HALOGRAD_IVDEP
        for (long i = begin; i < end; ++i) {
          const T g = from[i] + decay * parameters[i];
          const T s = squares[i] + g * g;
          squares[i] = s;
          parameters[i] -= rate * g / (math::sqrt(s) + epsilon);
        }
      });
}

#define HALOGRAD_INSTANTIATE(T)                                                                                    \
  template void sgd<T>(const ExecutionSpace&, const SgdStep&, Vector<T>, Vector<const T>, Vector<T>);              \
  template void adam<T>(const ExecutionSpace&, const AdamStep&, Vector<T>, Vector<const T>, Vector<T>, Vector<T>); \
  template void adagrad<T>(const ExecutionSpace&, const AdagradStep&, Vector<T>, Vector<const T>, Vector<T>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
