#include "kernels/cores.hpp"

#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace halograd {

Cores usable_cores() {
  Cores cores;
  CPU_ZERO(&cores.set);
  sched_getaffinity(0, sizeof(cores.set), &cores.set);
#if defined(_OPENMP)
  // GNU's library binds the first thread before main begins, and has then listed all of them as places.
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> numbers(omp_get_place_num_procs(place));
    omp_get_place_proc_ids(place, numbers.data());
    for (const int core : numbers) CPU_SET(core, &cores.set);
  }
#endif
  return cores;
}

}  // namespace halograd
