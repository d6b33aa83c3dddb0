#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace halograd {

/// The ages that staleness is counted by: 0, 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 and more.
inline constexpr std::size_t staleness_bins = 8;

/// What came over an in-edge of a rank in some time.
struct EdgeRecord {
  int from = 0;
  std::int64_t halos = 0;                                ///< versions that were read
  std::int64_t skipped = 0;                              ///< versions that were overwritten, or lost, before they were
  std::int64_t left_out = 0;                             ///< mixes without this neighbour
  std::array<std::int64_t, staleness_bins> staleness{};  ///< mixes with it, by the age of its halo in steps
  std::int64_t bytes = 0;
  double delay = 0;  ///< seconds from the neighbour's put to this rank's taking it, summed over the halos
  double least_delay = std::numeric_limits<double>::infinity();
  double wait = 0;  ///< seconds that this rank waited for it
};

}  // namespace halograd
