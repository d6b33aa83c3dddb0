#include "kernels/finite.hpp"

#include "kernels/bfloat16.hpp"
#include "kernels/chunks.hpp"

namespace halograd {

template <class T>
long count_non_finite(const ExecutionSpace& exec, Vector<const T> values) {
  const T* const from = values.data();
  return static_cast<long>(sum_over_chunks(
      exec, "halograd::count_non_finite", static_cast<long>(values.extent(0)),
      KOKKOS_LAMBDA(const long begin, const long end)->double {
        int count = 0;
        for (long i = begin; i < end; ++i) {
          const Wide<T> value = from[i];
          const Wide<T> rest = value - value;  // NOLINT(misc-redundant-expression): NaN of an infinity or a NaN
          count += rest == 0 ? 0 : 1;
        }
        return count;
      }));
}

#define HALOGRAD_INSTANTIATE(T) template long count_non_finite<T>(const ExecutionSpace&, Vector<const T>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
