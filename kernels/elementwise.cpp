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

/// Rows of values whose indices in the whole follow each other: all values where there is no other whole.
struct RowsOfPart {
  long length, pitch, plane, image;  ///< of a row; from row to row in the whole, and so on
  int height, depth;                 ///< rows of a plane, planes of an image
  long first;                        ///< of the first row
  RowsOfPart(const Shape& whole, const Box& part, long values)
      : length(values), pitch(0), plane(0), image(0), height(1), depth(1), first(0) {
    if (whole.values() == 0) return;
    const std::array<int, 3> extents = part.extents();
    length = static_cast<long>(extents[2]) * whole.channels;
    pitch = static_cast<long>(whole.width) * whole.channels;
    plane = pitch * whole.height;
    image = plane * whole.depth;
    height = extents[1];
    depth = extents[0];
    first = part.begin[0] * plane + part.begin[1] * pitch + static_cast<long>(part.begin[2]) * whole.channels;
  }
  [[nodiscard]] KOKKOS_FUNCTION long index(long row) const {
    const Divided line(row, height), slice(line.quotient, depth);
    return first + slice.quotient * image + slice.rest * plane + line.rest * pitch;
  }
};

template <class T, bool Add>
struct Dropout {
  RowsOfPart rows;
  const T* from;
  T* to;
  Wide<T> factor;
  std::uint64_t threshold, key;
  KOKKOS_FUNCTION void operator()(const long begin, const long end) const {
    for (long at = begin; at < end;) {
      const long row = at / rows.length, left = (row + 1) * rows.length;
      const long stop = left < end ? left : end;
      const long shift = rows.index(row) - row * rows.length;
      HALOGRAD_IVDEP
      for (long i = at; i < stop; ++i) {
        const Wide<T> kept = from[i] * factor;
        const Wide<T> value = (random_bits(key, static_cast<std::uint64_t>(i + shift)) >> 40U) >= threshold ? kept : 0;
        to[i] = Add ? to[i] + value : value;
      }
      at = stop;
    }
  }
};

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
             bool accumulate, const Shape& whole, const Box& part) {
  require_equal_lengths("dropout", x.extent(0), y.extent(0));
  HALOGRAD_REQUIRE(probability >= 0 && probability <= 1, "dropout: probability ", probability,
                   " is not between 0 and 1");
  const T* from = x.data();
  T* to = y.data();
  const auto factor = static_cast<Wide<T>>(probability < 1 ? 1 / (1 - probability) : 0);
  // random_uniform has 24 bits: comparing them as integers is the same test, without the conversion.
  const auto threshold = static_cast<std::uint64_t>(std::ceil(probability * 0x1p24));
  const long length = static_cast<long>(y.extent(0));
  const RowsOfPart rows(whole, part, length);
  const auto run = [&](const auto& add) {
    constexpr bool adds = std::decay_t<decltype(add)>::value;
    for_each_chunk(exec, adds ? "halograd::dropout_add" : "halograd::dropout", length,
                   Dropout<T, adds>{rows, from, to, factor, threshold, key});
  };
  accumulate ? run(std::true_type()) : run(std::false_type());
}

template <class From, class To>
void convert_values(const ExecutionSpace& exec, Vector<const From> x, Vector<To> y) {
  require_equal_lengths("convert_values", x.extent(0), y.extent(0));
  const From* from = x.data();
  To* to = y.data();
  for_each_chunk(
      exec, "halograd::convert_values", static_cast<long>(y.extent(0)),
      KOKKOS_LAMBDA(const long begin, const long end) {
        if constexpr (std::is_same_v<From, double> || std::is_same_v<To, double>) {
          for (long i = begin; i < end; ++i) to[i] = static_cast<Wide<To>>(from[i]);
        } else {
          copy_values(from + begin, end - begin, to + begin);
        }
      });
}

#define HALOGRAD_INSTANTIATE(T)                                                                             \
  template void relu_forward<T>(const ExecutionSpace&, Vector<const T>, Vector<T>);                         \
  template void relu_backward<T>(const ExecutionSpace&, Vector<const T>, Vector<const T>, Vector<T>, bool); \
  template void add_forward<T>(const ExecutionSpace&, Vector<const T>, Vector<const T>, Vector<T>);         \
  template void copy_gradient<T>(const ExecutionSpace&, Vector<const T>, Vector<T>, bool);                  \
  template void dropout<T>(const ExecutionSpace&, Vector<const T>, Vector<T>, double, std::uint64_t, bool,  \
                           const Shape&, const Box&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

#define HALOGRAD_INSTANTIATE_CONVERSIONS(T, U)                                           \
  template void convert_values<U, T>(const ExecutionSpace&, Vector<const U>, Vector<T>); \
  template void convert_values<T, U>(const ExecutionSpace&, Vector<const T>, Vector<U>);
HALOGRAD_INSTANTIATE_CONVERSIONS(Bfloat16, float)
HALOGRAD_INSTANTIATE_CONVERSIONS(Bfloat16, double)
HALOGRAD_INSTANTIATE_CONVERSIONS(float, double)
#undef HALOGRAD_INSTANTIATE_CONVERSIONS

}  // namespace halograd
