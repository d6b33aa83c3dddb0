#include "mpi/communicator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <sstream>

#include "kernels/error.hpp"
#include "mpi/kept_with.hpp"
#include "mpi/most_in_a_call.hpp"
#include "mpi/node_split.hpp"
#include "mpi/wait.hpp"

namespace halograd {
namespace {

/// A value of `bytes` bytes, as MPI sees it.
class BytesType {
 public:
  explicit BytesType(std::size_t bytes) {
    MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
  }
  ~BytesType() { MPI_Type_free(&type_); }
  BytesType(const BytesType&) = delete;
  BytesType& operator=(const BytesType&) = delete;
  operator MPI_Datatype() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Starts one call of MPI and waits for it.
template <class Start>
void run(const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  start(&request);
  wait_politely(request);
}

/// The same for each piece of a range, of `bytes` each: start(first byte, count, request).
template <class Byte, class Start>
void run_in_pieces(Byte* values, std::size_t count, std::size_t bytes, const Start& start) {
  for (std::size_t begin = 0; begin < count; begin += most_in_a_call) {
    const int piece = static_cast<int>(std::min(most_in_a_call, count - begin));
    run([&](MPI_Request* request) { start(values + begin * bytes, piece, request); });
  }
}

struct Nodes {
  explicit Nodes(const Communicator& comm);
  OwnedComm own;
  std::vector<int> of_rank;
  int count = 0;
};

Nodes::Nodes(const Communicator& comm)
    : own(OwnedComm::taken(split_by_memory(comm))), of_rank(comm.gather(own.broadcast(comm.rank()))) {
  for (int rank = 0; rank < comm.ranks(); ++rank) count += of_rank[static_cast<std::size_t>(rank)] == rank ? 1 : 0;
}

const Nodes& nodes_of(const Communicator& comm) {
  return kept_with(comm.handle(), [&comm] { return Nodes(comm); });
}

/// "line 3: 'epochs = 6' instead of 'epochs = 7'", or empty where the texts are equal.
std::string first_difference(const std::string& mine, const std::string& reference) {
  std::istringstream left(mine), right(reference);
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return "";
    if (!more_left) a.clear();
    if (!more_right) b.clear();
    if (a != b) return "line " + std::to_string(line) + ": '" + a + "' instead of '" + b + "'";
  }
}

}  // namespace

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
}

const Communicator& Communicator::node() const {
  return nodes_of(*this).own;
}

int Communicator::nodes() const {
  return nodes_of(*this).count;
}

const std::vector<int>& Communicator::node_of_rank() const {
  return nodes_of(*this).of_rank;
}

OwnedComm Communicator::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(comm_, color, key, &part);
  return OwnedComm::taken(part);
}

void Communicator::barrier() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // MPI promises no order of memory that is not its own
  run([&](MPI_Request* request) { MPI_Ibarrier(comm_, request); });
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Communicator::reduce(void* values, std::size_t count, MPI_Datatype type, MPI_Op operation) const {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  run_in_pieces(static_cast<std::byte*>(values), count, static_cast<std::size_t>(bytes),
                [&](std::byte* piece, int length, MPI_Request* request) {
                  MPI_Iallreduce(MPI_IN_PLACE, piece, length, type, operation, comm_, request);
                });
}

void Communicator::mean(HostVector<float> values) const {
  // In double, a piece at a time: the mean of equal floats is then that float again.
  constexpr std::size_t piece = std::size_t{1} << 20U;
  std::vector<double> sums(std::min(piece, values.size()));
  for (std::size_t begin = 0; begin < values.size(); begin += piece) {
    float* const from = values.data() + begin;
    const std::size_t count = std::min(piece, values.size() - begin);
    std::copy(from, from + count, sums.begin());
    sum(std::span(sums).first(count));
    for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<float>(sums[i] / ranks_);
  }
}

std::vector<float> Communicator::mean_on_root(HostVector<const float> values) const {
  const std::size_t length = values.size(), ranks = static_cast<std::size_t>(ranks_);
  const std::size_t block = std::max<std::size_t>(1, (std::size_t{1} << 22U) / ranks);
  std::vector<float> mean(rank_ == 0 ? length : 0), gathered, sums;
  std::vector<int> counts(ranks), starts(ranks), mine(ranks), mine_starts(ranks);
  for (std::size_t begin = 0; begin < length; begin += block * ranks) {
    for (std::size_t other = 0; other < ranks; ++other) {
      const std::size_t first = std::min(length, begin + other * block);
      counts[other] = static_cast<int>(std::min(block, length - first));
      starts[other] = static_cast<int>(first - begin);
    }
    const int share = counts[static_cast<std::size_t>(rank_)];
    for (std::size_t other = 0; other < ranks; ++other) {
      mine[other] = share;
      mine_starts[other] = static_cast<int>(other) * share;
    }
    gathered.resize(static_cast<std::size_t>(share) * ranks);
    run([&](MPI_Request* request) {
      MPI_Ialltoallv(values.data() + begin, counts.data(), starts.data(), MPI_FLOAT, gathered.data(), mine.data(),
                     mine_starts.data(), MPI_FLOAT, comm_, request);
    });
    sums.resize(static_cast<std::size_t>(share));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double sum = 0;
      for (std::size_t other = 0; other < ranks; ++other) sum += gathered[other * sums.size() + i];
      sums[i] = static_cast<float>(sum / ranks_);
    }
    run([&](MPI_Request* request) {
      MPI_Igatherv(sums.data(), share, MPI_FLOAT, rank_ == 0 ? mean.data() + begin : nullptr, counts.data(),
                   starts.data(), MPI_FLOAT, 0, comm_, request);
    });
  }
  return mean;
}

void Communicator::gather_bytes(const void* values, std::size_t count, std::size_t bytes, void* all) const {
  const BytesType type(bytes);
  const int length = static_cast<int>(count);
  run([&](MPI_Request* request) { MPI_Iallgather(values, length, type, all, length, type, comm_, request); });
}

void Communicator::gather_bytes_on_root(const void* values, std::size_t count, std::size_t bytes, void* all) const {
  const BytesType type(bytes);
  const int length = static_cast<int>(count);
  run([&](MPI_Request* request) { MPI_Igather(values, length, type, all, length, type, 0, comm_, request); });
}

void Communicator::broadcast_bytes(void* values, std::size_t bytes, int root) const {
  run_in_pieces(static_cast<std::byte*>(values), bytes, 1, [&](std::byte* piece, int length, MPI_Request* request) {
    MPI_Ibcast(piece, length, MPI_BYTE, root, comm_, request);
  });
}

std::string Communicator::broadcast(std::string text, int root) const {
  text.resize(broadcast(text.size(), root));
  broadcast(std::span(text), root);
  return text;
}

void Communicator::send_bytes(const void* values, std::size_t bytes, int to) const {
  run_in_pieces(static_cast<const std::byte*>(values), bytes, 1,
                [&](const std::byte* piece, int length, MPI_Request* request) {
                  MPI_Isend(piece, length, MPI_BYTE, to, 0, comm_, request);
                });
}

void Communicator::receive_bytes(void* values, std::size_t bytes, int from) const {
  run_in_pieces(static_cast<std::byte*>(values), bytes, 1, [&](std::byte* piece, int length, MPI_Request* request) {
    MPI_Irecv(piece, length, MPI_BYTE, from, 0, comm_, request);
  });
}

void Communicator::exchange_bytes(const void* out, std::size_t out_bytes, int to, void* in, std::size_t in_bytes,
                                  int from) const {
  for (std::size_t begin = 0; begin < std::max(out_bytes, in_bytes); begin += most_in_a_call) {
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const auto length = [begin](std::size_t bytes) {
      return static_cast<int>(std::min(most_in_a_call, bytes - begin));
    };
    if (begin < in_bytes) {
      MPI_Irecv(static_cast<std::byte*>(in) + begin, length(in_bytes), MPI_BYTE, from, 0, comm_, requests.data());
    }
    if (begin < out_bytes) {
      MPI_Isend(static_cast<const std::byte*>(out) + begin, length(out_bytes), MPI_BYTE, to, 0, comm_, &requests[1]);
    }
    for (MPI_Request& request : requests) wait_politely(request);
  }
}

void Communicator::fail_together(const std::string& message, Foreign foreign) const {
  int speaker = message.empty() ? ranks_ : rank_;
  run([&](MPI_Request* request) { MPI_Iallreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, comm_, request); });
  if (speaker == ranks_) return;
  int all = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  const bool was_foreign = broadcast(foreign, speaker) != Foreign::no_rank;
  const Foreign where = foreign == Foreign::this_rank ? foreign : Foreign::another_rank;
  throw CollectiveError(broadcast(message, speaker), ranks_ == all, was_foreign ? where : Foreign::no_rank);
}

void Communicator::require_same(const std::string& text, const std::string& what) const {
  const std::string difference = first_difference(text, broadcast(text));
  fail_together(difference.empty() ? ""
                                   : "rank " + std::to_string(rank_) + " was started with a different " + what +
                                         " than rank 0: " + difference);
}

OwnedComm::OwnedComm(const Communicator& comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  run([&](MPI_Request* request) { MPI_Comm_idup(comm.handle(), &copy, request); });
  static_cast<Communicator&>(*this) = Communicator(copy);
}

OwnedComm OwnedComm::taken(MPI_Comm comm) {
  return OwnedComm(Taken{comm});
}

OwnedComm::~OwnedComm() {
  if (!unwinding_.now()) MPI_Comm_free(&comm_);
}

}  // namespace halograd
