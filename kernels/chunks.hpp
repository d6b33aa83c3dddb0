#pragma once

#include "kernels/compat.hpp"
#include "kernels/label.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// The most values that one work item of for_each_chunk handles: on the host a long contiguous stretch for the vector
/// unit, on accelerators one value, so that neighbouring threads touch neighbouring addresses.
constexpr long chunk_length = runs_on_host ? 4096 : 1;

using FlatRange = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<long>>;

/// A work item's number, divided: accelerators divide 32 bits several times faster than 64.
struct Divided {
  long quotient;
  int rest;
  KOKKOS_FORCEINLINE_FUNCTION Divided(long number, int divisor) {
    if (!runs_on_host && number <= 0x7fffffffL) {
      const auto small = static_cast<unsigned>(number), by = static_cast<unsigned>(divisor);
      quotient = small / by;
      rest = static_cast<int>(small % by);
    } else {
      quotient = number / divisor;
      rest = static_cast<int>(number % divisor);
    }
  }
};

/// The functor behind for_each_chunk. A named type: nvcc lets no lambda stand in a function of another lambda's type.
template <class Body>
struct ChunkItem {
  Body body;
  long length;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const long begin = item * chunk_length;
    const long end = begin + chunk_length < length ? begin + chunk_length : length;
    if constexpr (runs_on_host) {
      const Body local = body;  // no store can reach this copy, so the compiler keeps it in registers
      local(begin, end);
    } else {
      body(begin, end);
    }
  }
};

/// The functor behind sum_over_chunks.
template <class Body>
struct ChunkSum {
  Body body;
  long length;
  KOKKOS_FUNCTION void operator()(const long item, double& sum) const {
    const long begin = item * chunk_length;
    sum += body(begin, begin + chunk_length < length ? begin + chunk_length : length);
  }
};

/// Calls body(begin, end) for stretches that partition [0, length), in parallel.
template <class Body>
void for_each_chunk(const ExecutionSpace& exec, const char* name, long length, const Body& body) {
  const long chunks = (length + chunk_length - 1) / chunk_length;
  Kokkos::parallel_for(label(name), FlatRange(exec, 0, chunks), ChunkItem<Body>{body, length});
}

/// The sum of body(begin, end) over stretches that partition [0, length); fences. The same number of threads gives the
/// same bits: the partition is static and partial sums are joined in the order of the threads.
template <class Body>
double sum_over_chunks(const ExecutionSpace& exec, const char* name, long length, const Body& body) {
  const long chunks = (length + chunk_length - 1) / chunk_length;
  double sum = 0;
  Kokkos::parallel_reduce(label(name), FlatRange(exec, 0, chunks), ChunkSum<Body>{body, length}, sum);
  return sum;
}

}  // namespace halograd
