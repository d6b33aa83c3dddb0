#pragma once

#include <mpi.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace halograd {

inline int this_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int all_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// MPI_Win_flush spins, and a put needs its target inside MPI: on many more ranks than cores each takes milliseconds,
/// and making a window a second.
inline bool puts_are_quick() {
  return all_ranks() <= 2 * static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
}

/// Values of comm.slots to test with: more than two where windows are made quickly.
inline std::vector<int> slots_to_test() {
  return puts_are_quick() ? std::vector<int>{2, 3} : std::vector<int>{2};
}

/// Values of comm.force_put to test with: stores, and puts where these are quick (HaloWindow's tests put always).
inline std::vector<bool> ways_to_put() {
  return puts_are_quick() ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

}  // namespace halograd
