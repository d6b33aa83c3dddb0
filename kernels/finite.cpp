#include "kernels/finite.hpp"

#include "kernels/chunks.hpp"

namespace halograd {

long count_non_finite(const ExecutionSpace& exec, Vector<const float> values) {
  const float* const from = values.data();
  return static_cast<long>(sum_over_chunks(
      exec, "halograd::count_non_finite", static_cast<long>(values.extent(0)),
      KOKKOS_LAMBDA(const long begin, const long end)->double {
        int count = 0;
        for (long i = begin; i < end; ++i) {
          const float rest = from[i] - from[i];  // 0, or NaN of an infinity or a NaN
          count += rest == 0 ? 0 : 1;
        }
        return count;
      }));
}

}  // namespace halograd
