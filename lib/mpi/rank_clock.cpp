#include "mpi/rank_clock.hpp"

#include <limits>

#include "mpi/node_comm.hpp"
#include "mpi/wait.hpp"

namespace halograd {
namespace {

constexpr int round_trips = 100;

void send(MPI_Comm comm, int to, std::int64_t value) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&value, 1, MPI_INT64_T, to, 0, comm, &request);
  wait_politely(request);
}

std::int64_t receive(MPI_Comm comm, int from) {
  std::int64_t value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&value, 1, MPI_INT64_T, from, 0, comm, &request);
  wait_politely(request);
  return value;
}

/// Of this rank's node, whose ranks share a clock.
std::int64_t offset_to_first(MPI_Comm comm) {
  int rank = 0, node_rank = 0;
  std::int64_t offset = 0;
  MPI_Comm leaders = MPI_COMM_NULL;
  MPI_Comm_rank(comm, &rank);
  const MPI_Comm node = node_comm(comm);
  MPI_Comm_rank(node, &node_rank);
  MPI_Comm_split(comm, node_rank == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);
  if (leaders != MPI_COMM_NULL) {
    offset = clock_offset(leaders, node_clock);
    MPI_Comm_free(&leaders);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&offset, 1, MPI_INT64_T, 0, node, &request);
  wait_politely(request);
  return offset;
}

}  // namespace

std::int64_t clock_offset(MPI_Comm comm, std::int64_t (*clock)()) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  if (rank == 0) {
    for (int other = 1; other < ranks; ++other) {
      for (int i = 0; i < round_trips; ++i) {
        receive(comm, other);
        send(comm, other, clock());
      }
    }
    return 0;
  }
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int i = 0; i < round_trips; ++i) {
    const std::int64_t begin = clock();
    send(comm, 0, 0);
    const std::int64_t there = receive(comm, 0);
    const std::int64_t end = clock();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    offset = there - (begin + (end - begin) / 2);
  }
  return offset;
}

// Kept with the communicator: every window on it has a clock.
RankClock::RankClock(MPI_Comm comm) : offset_(kept_with(comm, [comm] { return offset_to_first(comm); })) {}

}  // namespace halograd
