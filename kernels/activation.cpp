#include "kernels/activation.hpp"

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"
#include "kernels/pack.hpp"

namespace halograd {

namespace {

// Each function: its value, and its derivative from its output or its input. A NaN stays one: a diverged run must show.

template <class T>
struct LeakyRelu {
  T slope;
  static constexpr bool from_output = true;
  KOKKOS_FUNCTION T value(T x) const { return x < T(0) ? slope * x : x; }
  KOKKOS_FUNCTION T derivative(T y) const { return y > T(0) ? T(1) : slope; }
};

template <class T>
struct Relu6 {
  static constexpr bool from_output = true;
  KOKKOS_FUNCTION T value(T x) const {
    const T above = x < T(0) ? T(0) : x;
    return above > T(6) ? T(6) : above;
  }
  KOKKOS_FUNCTION T derivative(T y) const {
    const T below = y < T(6) ? T(1) : T(0);  // two selections: g++ leaves a loop over a && b scalar on AVX2
    return y > T(0) ? below : T(0);
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION T sigmoid_of(T x) {
  return T(1) / (T(1) + math::exp(-x));
}

template <class T>
struct Sigmoid {
  static constexpr bool from_output = true;
  KOKKOS_FUNCTION T value(T x) const { return sigmoid_of(x); }
  KOKKOS_FUNCTION T derivative(T y) const { return y * (T(1) - y); }
};

template <class T>
struct Tanh {
  T scale, inverse;
  static constexpr bool from_output = true;
  KOKKOS_FUNCTION T value(T x) const { return scale * math::tanh(x); }
  KOKKOS_FUNCTION T derivative(T y) const { return scale - inverse * y * y; }
};

template <class T>
struct Gelu {
  static constexpr bool from_output = false;
  KOKKOS_FUNCTION T below(T x) const { return T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440))); }
  KOKKOS_FUNCTION T value(T x) const { return x * below(x); }
  KOKKOS_FUNCTION T derivative(T x) const {
    return below(x) + x * T(0.39894228040143267794) * math::exp(T(-0.5) * x * x);
  }
};

template <class T>
struct Silu {
  static constexpr bool from_output = false;
  KOKKOS_FUNCTION T value(T x) const { return x * sigmoid_of(x); }
  KOKKOS_FUNCTION T derivative(T x) const {
    const T s = sigmoid_of(x);
    return s * (T(1) + x * (T(1) - s));
  }
};

/// Calls body with the function's type.
template <class T, class Body>
void with_function(Activation function, double number, const Body& body) {
  switch (function) {
    case Activation::leaky_relu:
      return body(LeakyRelu<T>{static_cast<T>(number)});
    case Activation::relu6:
      return body(Relu6<T>{});
    case Activation::sigmoid:
      return body(Sigmoid<T>{});
    case Activation::tanh:
      return body(Tanh<T>{static_cast<T>(number), static_cast<T>(1 / number)});
    case Activation::gelu:
      return body(Gelu<T>{});
    case Activation::silu:
      return body(Silu<T>{});
  }
}

/// Values that a work item converts at a time, where they are not stored as it computes in.
constexpr long block_length = 128;

/// Named types instead of lambdas: nvcc lets none stand in a generic lambda.
template <class T, class Function>
struct ActivationForward {
  Function function;
  const T* x;
  T* y;
  KOKKOS_FUNCTION void compute(const Wide<T>* from, Wide<T>* to, long count) const {
    HALOGRAD_IVDEP
    for (long i = 0; i < count; ++i) to[i] = function.value(from[i]);
  }
  KOKKOS_FUNCTION void operator()(const long begin, const long end) const {
    if constexpr (std::is_same_v<Wide<T>, T>) {
      compute(x + begin, y + begin, end - begin);
    } else {
      Wide<T> values[block_length];
      for (long at = begin; at < end; at += block_length) {
        const long count = end - at < block_length ? end - at : block_length;
        copy_values(x + at, count, values);
        compute(values, values, count);
        copy_values(values, count, y + at);
      }
    }
  }
};

template <class T, class Function, bool Add>
struct ActivationBackward {
  Function function;
  const T* known;
  const T* dy;
  T* dx;
  KOKKOS_FUNCTION void compute(const Wide<T>* values, const Wide<T>* from, Wide<T>* to, long count) const {
    HALOGRAD_IVDEP
    for (long i = 0; i < count; ++i) {
      const Wide<T> gradient = from[i] * function.derivative(values[i]);
      to[i] = Add ? to[i] + gradient : gradient;
    }
  }
  KOKKOS_FUNCTION void operator()(const long begin, const long end) const {
    if constexpr (std::is_same_v<Wide<T>, T>) {
      compute(known + begin, dy + begin, dx + begin, end - begin);
    } else {
      Wide<T> values[block_length], from[block_length], to[block_length];
      for (long at = begin; at < end; at += block_length) {
        const long count = end - at < block_length ? end - at : block_length;
        copy_values(known + at, count, values);
        copy_values(dy + at, count, from);
        if constexpr (Add) copy_values(dx + at, count, to);
        compute(values, from, to, count);
        copy_values(to, count, dx + at);
      }
    }
  }
};

void require_activation(const char* kernel, double number, std::size_t first, std::size_t second) {
  HALOGRAD_REQUIRE(first == second, kernel, ": the ranges differ in length: ", first, " and ", second, " values");
  HALOGRAD_REQUIRE(number >= 0, kernel, ": slope ", number, " is below 0: the output would not tell the input's sign");
}

}  // namespace

bool differentiates_output(Activation function) {
  bool from_output = false;
  with_function<float>(function, 1, [&](auto f) { from_output = decltype(f)::from_output; });
  return from_output;
}

template <class T>
void activation_forward(const ExecutionSpace& exec, Activation function, double number, Vector<const T> x,
                        Vector<T> y) {
  require_activation("activation_forward", number, x.extent(0), y.extent(0));
  const long length = static_cast<long>(y.extent(0));
  with_function<Wide<T>>(function, number, [&](auto f) {
    for_each_chunk(exec, "halograd::activation_forward", length,
                   ActivationForward<T, decltype(f)>{f, x.data(), y.data()});
  });
}

template <class T>
void activation_backward(const ExecutionSpace& exec, Activation function, double number, Vector<const T> known,
                         Vector<const T> dy, Vector<T> dx, bool accumulate) {
  require_activation("activation_backward", number, known.extent(0), dy.extent(0));
  require_activation("activation_backward", number, dy.extent(0), dx.extent(0));
  const long length = static_cast<long>(dx.extent(0));
  with_function<Wide<T>>(function, number, [&](auto f) {
    if (accumulate) {
      for_each_chunk(exec, "halograd::activation_backward_add", length,
                     ActivationBackward<T, decltype(f), true>{f, known.data(), dy.data(), dx.data()});
    } else {
      for_each_chunk(exec, "halograd::activation_backward", length,
                     ActivationBackward<T, decltype(f), false>{f, known.data(), dy.data(), dx.data()});
    }
  });
}

#define HALOGRAD_INSTANTIATE(T)                                                                                     \
  template void activation_forward<T>(const ExecutionSpace&, Activation, double, Vector<const T>, Vector<T>);       \
  template void activation_backward<T>(const ExecutionSpace&, Activation, double, Vector<const T>, Vector<const T>, \
                                       Vector<T>, bool);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
