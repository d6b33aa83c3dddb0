#include "window/all_reduce.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/bfloat16.hpp"
#include "mpi/most_in_a_call.hpp"
#include "mpi/wait.hpp"
#include "window/progress_hook.hpp"

namespace halograd {
namespace {

class MpiAllReduce final : public AllReduce {
 public:
  explicit MpiAllReduce(const Communicator& comm) : AllReduce(comm), comm_(comm) {}

  std::int64_t start(HostVector<float> values) override {
    for (std::size_t begin = 0; begin < values.extent(0); begin += most_in_a_call) {
      const int count = static_cast<int>(std::min(most_in_a_call, values.extent(0) - begin));
      MPI_Iallreduce(MPI_IN_PLACE, values.data() + begin, count, MPI_FLOAT, MPI_SUM, comm_.handle(),
                     &requests_.emplace_back());
      ++started_;
    }
    return started_;
  }

  bool has_ended(std::int64_t number) override {
    while (!requests_.empty()) {
      int done = 0;
      MPI_Test(&requests_.front(), &done, MPI_STATUS_IGNORE);
      if (done == 0) break;
      requests_.pop_front();
    }
    return started_ - static_cast<std::int64_t>(requests_.size()) >= number;
  }

  std::optional<int> awaited_rank() override { return {}; }

 private:
  OwnedComm comm_;
  std::deque<MPI_Request> requests_;  // oldest first
  std::int64_t started_ = 0;
};

// A rank sends so many values at a time, 256 KiB: long enough for the network's bandwidth.
constexpr std::size_t chunk_floats = std::size_t{1} << 16;
// This many pieces have a message under way at a time, so that the network is busy while ranks add.
constexpr std::size_t pieces_under_way = 4;

/// Wire: float or Bfloat16.
template <class Wire>
class RingAllReduce final : public AllReduce {
 public:
  explicit RingAllReduce(const Communicator& comm)
      : AllReduce(comm), comm_(comm), ranks_(static_cast<std::size_t>(comm.ranks())), hook_([this] { move_on(); }) {
    const std::vector<int>& node = comm.node_of_rank();
    std::vector<int> ring(ranks_);
    std::iota(ring.begin(), ring.end(), 0);
    std::stable_sort(ring.begin(), ring.end(), [&](int a, int b) {
      return node[static_cast<std::size_t>(a)] < node[static_cast<std::size_t>(b)];
    });
    place_ = static_cast<std::size_t>(std::find(ring.begin(), ring.end(), comm.rank()) - ring.begin());
    next_ = ring[(place_ + 1) % ranks_];
    previous_ = ring[(place_ + ranks_ - 1) % ranks_];
    for (auto& buffer : received_) buffer.resize(chunk_floats);
    for (auto& buffer : sent_) buffer.resize(converts ? chunk_floats : 0);
  }

  std::int64_t start(HostVector<float> values) override {
    const std::lock_guard lock(mutex_);
    const std::size_t most = chunk_floats * ranks_;
    for (std::size_t begin = 0; ranks_ > 1 && begin < values.extent(0); begin += most) {
      pieces_.push_back({slice(values, begin, std::min(most, values.extent(0) - begin)), started_++});
    }
    move_on_pieces();
    return started_;
  }

  bool has_ended(std::int64_t number) override {
    const std::lock_guard lock(mutex_);
    move_on_pieces();
    return started_ - static_cast<std::int64_t>(pieces_.size()) >= number;
  }

  std::optional<int> awaited_rank() override {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return {};
    int has_come = 0;
    MPI_Request_get_status(pieces_.front().requests[0], &has_come, MPI_STATUS_IGNORE);
    return has_come != 0 ? next_ : previous_;
  }

 private:
  static constexpr bool converts = !std::is_same_v<Wire, float>;

  /// Values that are summed at a time, in P chunks.
  struct Piece {
    HostVector<float> values;
    std::int64_t number;
    std::size_t step = 0;  ///< the last one that has begun, of 2 (P - 1): the first half adds up, the second copies
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };

  void move_on_pieces() {
    for (std::size_t i = 0; i < std::min(pieces_under_way, pieces_.size());) {
      // Pieces end in their order, so that no two under way are alike in their tags and buffers.
      if (move_on_piece(pieces_[i]) && i == 0) {
        pieces_.pop_front();
      } else {
        ++i;
      }
    }
  }

  /// Whether the piece is complete.
  bool move_on_piece(Piece& piece) {
    const auto slot = static_cast<std::size_t>(piece.number) % pieces_under_way;
    const std::size_t sums = ranks_ - 1, steps = 2 * sums;
    Wire* const received = received_[slot].data();
    const MPI_Datatype type = converts ? MPI_UINT16_T : MPI_FLOAT;
    for (;;) {
      int done = 0;
      MPI_Testall(2, piece.requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done == 0) return false;
      if (piece.step > 0) take(received, chunk(piece, piece.step), piece.step <= sums);
      if (piece.step == steps) return true;
      ++piece.step;
      const HostVector<float> from = chunk(piece, piece.step), to = chunk(piece, piece.step - 1);
      void* into = received;
      const void* outof = to.data();
      if constexpr (converts) {
        Wire* const code = sent_[slot].data();
        for (std::size_t i = 0; i < to.extent(0); ++i) code[i] = to[i];
        if (piece.step == sums + 1) take(code, to, false);  // what all others get of this rank's sum
        outof = code;
      } else if (piece.step > sums) {
        into = from.data();
      }
      MPI_Irecv(into, static_cast<int>(from.extent(0)), type, previous_, static_cast<int>(slot), comm_.handle(),
                &piece.requests[0]);
      MPI_Isend(outof, static_cast<int>(to.extent(0)), type, next_, static_cast<int>(slot), comm_.handle(),
                &piece.requests[1]);
    }
  }

  /// Adds what has come, or puts it in the place of the values, unless it came there.
  static void take(const Wire* received, HostVector<float> values, bool add) {
    if (add) {
      for (std::size_t i = 0; i < values.extent(0); ++i) values[i] += static_cast<float>(received[i]);
    } else if (converts) {
      for (std::size_t i = 0; i < values.extent(0); ++i) values[i] = static_cast<float>(received[i]);
    }
  }

  /// The chunk `back` places before that with this rank's place in the ring. Step s sends chunk s - 1 and receives s.
  [[nodiscard]] HostVector<float> chunk(const Piece& piece, std::size_t back) const {
    const std::size_t number = (place_ + 2 * ranks_ - back) % ranks_, length = piece.values.extent(0);
    const std::size_t begin = length * number / ranks_;
    return slice(piece.values, begin, length * (number + 1) / ranks_ - begin);
  }

  OwnedComm comm_;
  std::size_t ranks_;
  std::size_t place_ = 0;  // in the ring
  int next_ = 0, previous_ = 0;
  std::mutex mutex_;  // guards all below: a progress thread comes here too
  std::deque<Piece> pieces_;
  std::int64_t started_ = 0;
  std::array<std::vector<Wire>, pieces_under_way> received_, sent_;
  ProgressHook hook_;
};

/// The least values per rank of a sum that goes by a ring: 64 KiB of floats.
constexpr std::size_t long_message = std::size_t{1} << 14;

bool is_long(std::size_t length, int ranks) {
  return length >= long_message * static_cast<std::size_t>(ranks);
}

/// Long sums by a ring, short ones by MPI.
class AllReduceByLength final : public AllReduce {
 public:
  AllReduceByLength(const Communicator& comm, Travel travel)
      : AllReduce(comm), ranks_(comm.ranks()), mpi_(comm), ring_(make_ring_all_reduce(comm, travel)) {}

  std::int64_t start(HostVector<float> values) override {
    AllReduce& way = is_long(values.extent(0), ranks_) ? *ring_ : mpi_;
    sums_.push_back({way, way.start(values)});
    return ++started_;
  }

  bool has_ended(std::int64_t number) override {
    mpi_.move_on();
    ring_->move_on();
    while (!sums_.empty() && sums_.front().way.has_ended(sums_.front().number)) sums_.pop_front();
    return started_ - static_cast<std::int64_t>(sums_.size()) >= number;
  }

  std::optional<int> awaited_rank() override {
    if (sums_.empty()) return {};
    return sums_.front().way.awaited_rank();
  }

 private:
  /// A sum that is not known to be complete.
  struct Sum {
    AllReduce& way;
    std::int64_t number;  // there
  };

  int ranks_;
  MpiAllReduce mpi_;
  std::unique_ptr<AllReduce> ring_;
  std::deque<Sum> sums_;  // oldest first
  std::int64_t started_ = 0;
};

}  // namespace

double AllReduce::wait_until(const std::function<bool()>& is_done, double report_seconds) {
  return wait_and_report(is_done, report_seconds, [this](double seconds) {
    const std::optional<int> awaited = awaited_rank();
    std::fprintf(stderr, "rank %d waits for %s: a sum over all ranks, %.3g s\n", rank_,
                 awaited ? ("rank " + std::to_string(*awaited)).c_str() : "the others", seconds);
  });
}

std::int64_t all_reduce_bytes(int ranks, std::size_t length, Travel travel) {
  const std::size_t value = travel == Travel::bf16 && is_long(length, ranks) ? sizeof(Bfloat16) : sizeof(float);
  return 2 * (ranks - 1) * static_cast<std::int64_t>(length * value) / ranks;
}

std::unique_ptr<AllReduce> make_mpi_all_reduce(const Communicator& comm) {
  return std::make_unique<MpiAllReduce>(comm);
}

std::unique_ptr<AllReduce> make_ring_all_reduce(const Communicator& comm, Travel travel) {
  if (travel == Travel::bf16) return std::make_unique<RingAllReduce<Bfloat16>>(comm);
  return std::make_unique<RingAllReduce<float>>(comm);
}

std::unique_ptr<AllReduce> make_all_reduce_by_length(const Communicator& comm, Travel travel) {
  return std::make_unique<AllReduceByLength>(comm, travel);
}

std::unique_ptr<AllReduce> make_all_reduce(const Communicator& comm, Travel travel) {
  const bool by_mpi = travel == Travel::floats && comm.nodes() == 1;
  return by_mpi ? make_mpi_all_reduce(comm) : make_all_reduce_by_length(comm, travel);
}

}  // namespace halograd
