#include "kernels/stream_copy.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/error.hpp"
#include "kernels/label.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace halograd {
namespace {

void copy_stretch(const float* from, float* to, long length) {
#if defined(__SSE2__)
  constexpr int lanes = 4;
  const auto past = static_cast<long>(reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128) / sizeof(float));
  const long first = std::min(length, (lanes - past) % lanes);  // where whole vectors begin
  const long last = first + (length - first) / lanes * lanes;
  std::copy_n(from, first, to);
  for (long i = first; i < last; i += lanes) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  std::copy(from + last, from + length, to + last);
  _mm_sfence();  // such stores are not ordered by a release store
#else
  std::copy_n(from, length, to);
#endif
}

}  // namespace

void stream_copy(const Kokkos::DefaultHostExecutionSpace& exec, HostVector<const float> from, HostVector<float> to) {
  HALOGRAD_REQUIRE(from.extent(0) == to.extent(0), "stream_copy: ", from.extent(0), " values into ", to.extent(0));
  constexpr long stretch = 4096;
  const long length = static_cast<long>(from.extent(0));
  const float* const source = from.data();
  float* const target = to.data();
  using Range = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<long>>;
  Kokkos::parallel_for(label("halograd::stream_copy"), Range(exec, 0, (length + stretch - 1) / stretch),
                       [=](const long item) {
                         const long begin = item * stretch;
                         copy_stretch(source + begin, target + begin, std::min(stretch, length - begin));
                       });
  exec.fence();
}

}  // namespace halograd
