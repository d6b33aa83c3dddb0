#include "mpi/rank_clock.hpp"

#include <limits>
#include <span>

#include "mpi/kept_with.hpp"

namespace halograd {
namespace {

constexpr int round_trips = 100;

void send(const Communicator& comm, int to, std::int64_t value) {
  comm.send(std::span<const std::int64_t>(&value, 1), to);
}

std::int64_t receive(const Communicator& comm, int from) {
  std::int64_t value = 0;
  comm.receive(std::span(&value, 1), from);
  return value;
}

/// The offset of this rank's node, whose ranks share a clock.
std::int64_t offset_to_first(const Communicator& comm) {
  const bool leads = comm.node_rank() == 0;
  const OwnedComm peers = comm.split(leads ? 0 : 1);
  return comm.node().broadcast(leads ? clock_offset(peers, node_clock) : 0);
}

}  // namespace

std::int64_t clock_offset(const Communicator& comm, std::int64_t (*clock)()) {
  if (comm.rank() == 0) {
    for (int other = 1; other < comm.ranks(); ++other) {
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
RankClock::RankClock(const Communicator& comm)
    : offset_(kept_with(comm.handle(), [&comm] { return offset_to_first(comm); })) {}

}  // namespace halograd
