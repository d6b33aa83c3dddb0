#include "kernels/elementwise.hpp"

#include <cmath>

#include "kernels/bfloat16.hpp"
#include "kernels/chunks.hpp"
#include "kernels/error.hpp"
#include "kernels/pack.hpp"
#include "kernels/random.hpp"

namespace halograd {

namespace {

void require_equal_lengths(const char* kernel, std::size_t first, std::size_t second) {
  HALOGRAD_REQUIRE(first == second, kernel, ": the ranges differ in length: ", first, " and ", second, " values");
}

}  // namespace

template <class T>
void relu_forward(const ExecutionSpace& exec, Vector<const T> x, Vector<T> y) {
  require_equal_lengths("relu_forward", x.extent(0), y.extent(0));
  const T* from = x.data();
  T* to = y.data();
  for_each_chunk(
      exec, "halograd::relu_forward", static_cast<long>(y.extent(0)), KOKKOS_LAMBDA(const long begin, const long end) {
        HALOGRAD_IVDEP
        for (long i = begin; i < end; ++i) {
          const Wide<T> value = from[i];
          to[i] = value < 0 ? 0 : value;  // a NaN stays one: a diverged run must show
        }
      });
}

template <class T>
void relu_backward(const ExecutionSpace& exec, Vector<const T> y, Vector<const T> dy, Vector<T> dx, bool accumulate) {
  require_equal_lengths("relu_backward", y.extent(0), dy.extent(0));
  require_equal_lengths("relu_backward", dy.extent(0), dx.extent(0));
  const T* output = y.data();
  const T* from = dy.data();
  T* to = dx.data();
  const long length = static_cast<long>(dx.extent(0));
  if (accumulate) {
    for_each_chunk(
        exec, "halograd::relu_backward_add", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            const Wide<T> gradient = from[i];
            to[i] = to[i] + (output[i] > 0 ? gradient : 0);
          }
        });
  } else {
    for_each_chunk(
        exec, "halograd::relu_backward", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            const Wide<T> gradient = from[i];
            to[i] = output[i] > 0 ? gradient : 0;
          }
        });
  }
}

template <class T>
void add_forward(const ExecutionSpace& exec, Vector<const T> x, Vector<const T> y, Vector<T> z) {
  require_equal_lengths("add_forward", x.extent(0), y.extent(0));
  require_equal_lengths("add_forward", y.extent(0), z.extent(0));
  const T* first = x.data();
  const T* second = y.data();
  T* to = z.data();
  for_each_chunk(
      exec, "halograd::add_forward", static_cast<long>(z.extent(0)), KOKKOS_LAMBDA(const long begin, const long end) {
        HALOGRAD_IVDEP
        for (long i = begin; i < end; ++i) {
          to[i] = first[i] + second[i];
        }
      });
}

template <class T>
void copy_gradient(const ExecutionSpace& exec, Vector<const T> dy, Vector<T> dx, bool accumulate) {
  require_equal_lengths("copy_gradient", dy.extent(0), dx.extent(0));
  const T* from = dy.data();
  T* to = dx.data();
  const long length = static_cast<long>(dx.extent(0));
  if (accumulate) {
    for_each_chunk(
        exec, "halograd::add_gradient", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            to[i] = to[i] + from[i];
          }
        });
  } else {
    for_each_chunk(
        exec, "halograd::copy_gradient", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            to[i] = Wide<T>(from[i]);
          }
        });
  }
}

template <class T>
void dropout(const ExecutionSpace& exec, Vector<const T> x, Vector<T> y, double probability, std::uint64_t key,
             bool accumulate) {
  require_equal_lengths("dropout", x.extent(0), y.extent(0));
  HALOGRAD_REQUIRE(probability >= 0 && probability <= 1, "dropout: probability ", probability,
                   " is not between 0 and 1");
  const T* from = x.data();
  T* to = y.data();
  const auto factor = static_cast<Wide<T>>(probability < 1 ? 1 / (1 - probability) : 0);
  // random_uniform has 24 bits: comparing them as integers is the same test, without the conversion.
  const auto threshold = static_cast<std::uint64_t>(std::ceil(probability * 0x1p24));
  const long length = static_cast<long>(y.extent(0));
  if (accumulate) {
    for_each_chunk(
        exec, "halograd::dropout_add", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            const Wide<T> kept = from[i] * factor;
            to[i] = to[i] + ((random_bits(key, static_cast<std::uint64_t>(i)) >> 40U) >= threshold ? kept : 0);
          }
        });
  } else {
    for_each_chunk(
        exec, "halograd::dropout", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) {
            const Wide<T> kept = from[i] * factor;
            to[i] = (random_bits(key, static_cast<std::uint64_t>(i)) >> 40U) >= threshold ? kept : 0;
          }
        });
  }
}

template <class From, class To>
void convert_values(const ExecutionSpace& exec, Vector<const From> x, Vector<To> y) {
  require_equal_lengths("convert_values", x.extent(0), y.extent(0));
  const From* from = x.data();
  To* to = y.data();
  for_each_chunk(
      exec, "halograd::convert_values", static_cast<long>(y.extent(0)),
      KOKKOS_LAMBDA(const long begin, const long end) { copy_values(from + begin, end - begin, to + begin); });
}

#define HALOGRAD_INSTANTIATE(T)                                                                             \
  template void relu_forward<T>(const ExecutionSpace&, Vector<const T>, Vector<T>);                         \
  template void relu_backward<T>(const ExecutionSpace&, Vector<const T>, Vector<const T>, Vector<T>, bool); \
  template void add_forward<T>(const ExecutionSpace&, Vector<const T>, Vector<const T>, Vector<T>);         \
  template void copy_gradient<T>(const ExecutionSpace&, Vector<const T>, Vector<T>, bool);                  \
  template void dropout<T>(const ExecutionSpace&, Vector<const T>, Vector<T>, double, std::uint64_t, bool);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

#define HALOGRAD_INSTANTIATE_CONVERSIONS(T)                                                      \
  template void convert_values<float, T>(const ExecutionSpace&, Vector<const float>, Vector<T>); \
  template void convert_values<T, float>(const ExecutionSpace&, Vector<const T>, Vector<float>);
HALOGRAD_INSTANTIATE_CONVERSIONS(Bfloat16)
#undef HALOGRAD_INSTANTIATE_CONVERSIONS

}  // namespace halograd
