#include "comm/halo_layout.hpp"

#include <string>

#include "kernels/random.hpp"
#include "support/wait.hpp"

namespace halograd {
namespace {

/// Everything that the layouts of all ranks follow from, in one number that ranks can compare.
std::int64_t fingerprint(const Topology& topology, std::size_t length, const HaloWindow::Options& options) {
  std::uint64_t hash = random_bits(
      length, static_cast<std::uint64_t>(options.slots) * 4 + (options.exact ? 2 : 0) + (options.force_put ? 1 : 0));
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
      hash = random_bits(hash, (static_cast<std::uint64_t>(rank) << 32U) + static_cast<std::uint64_t>(neighbour.rank));
    }
  }
  return static_cast<std::int64_t>(hash >> 1U);
}

}  // namespace

HaloLayout checked_halo_layout(MPI_Comm comm, const Topology& topology, std::size_t length,
                               const HaloWindow::Options& options) {
  int ranks = 0, rank = 0;
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &rank);
  const std::int64_t mine = fingerprint(topology, length, options);
  std::int64_t range[2] = {mine, -mine};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, range, 2, MPI_INT64_T, MPI_MAX, comm, &request);
  wait_politely(request);

  std::string message;
  if (topology.ranks() != ranks) {
    message = "halo window: the topology has " + std::to_string(topology.ranks()) + " ranks, the communicator " +
              std::to_string(ranks);
  } else if (options.slots < 2) {
    message = "comm.slots is " + std::to_string(options.slots) + "; expected at least 2";
  } else if (range[0] != -range[1]) {
    message = "halo window: ranks differ in topology, length, slots or force_put";
  }
  fail_together(comm, message);
  return {topology, rank, length, options.slots};
}

}  // namespace halograd
