#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "window/cache_line.hpp"
#include "window/halo_transport.hpp"

namespace halograd {

/// Messages between the ranks of a group that work on one replica together, from any to any: what the parts of an
/// activation have at their edges. Each pair of ranks has two slots per direction, in the receiver's region, so that a
/// rank may send once more before the last message was read. All ranks send and receive in the same order, so that a
/// message needs no name. Where ranks share memory, the sender's kernels write into the slot itself.
class GroupWindow {
 public:
  /// Collective, and so is destruction, except while an exception unwinds this rank's stack.
  GroupWindow(const Communicator& group, const TransportOptions& options);
  /// One rank of a group, alone, to measure what it computes and sends: its messages are dropped, and it receives
  /// zeros.
  GroupWindow(int rank, int ranks);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Collective: Communicator::together over the group.
  void together(const std::function<void()>& body) const;

  /// Before open(): messages of up to `floats` will go from one rank to another. The same calls on all ranks.
  void expect_message(int from, int to, std::size_t floats);
  void expect_sum(std::size_t doubles);
  void expect_shards(std::size_t floats);
  /// Collective. Throws Error on all ranks where they expect different messages, a node has too little shared memory,
  /// or MPI grants no unified memory model.
  void open();

  // Once open:

  /// Where the next message to `to` is to be written. Waits, giving up the core, until there is room.
  HostVector<float> room(int to, std::size_t length);
  /// Sends what lies in the room; what kernels write there is fenced before.
  void post(int to);
  /// Ends what was posted since the last call: waits until it has left. To be called before receive().
  void flush();
  /// The next message of a rank, of this length; waits for it, giving up the core. Valid until released.
  HostVector<const float> receive(int from, std::size_t length);
  void release(int from);

  /// Replaces the numbers by their sums over all ranks, added in the order of the ranks: the same bits on all.
  void sum(HostVector<double> numbers);
  /// Many floats, in pieces: each rank's shard of them becomes the sum over all ranks, the rest stays as it was.
  void sum_shards(HostVector<float> values);
  /// Every rank gets the shards of the others, shard r from rank r.
  void gather(HostVector<float> values);
  static constexpr std::size_t piece = std::size_t{1} << 16;  ///< floats
  /// The values of a rank's shard among `count`: shards are alike but for the last ones, which may have fewer. As few
  /// stretches of at most `cut` values as one takes are alike, too.
  static constexpr std::size_t cut = std::size_t{1} << 18;
  struct Shard {
    std::size_t begin, length;
  };
  static Shard shard(std::size_t count, int rank, int ranks);

  // Since it was opened:
  [[nodiscard]] double wait_seconds() const { return transport_ ? transport_->wait_seconds() : 0; }
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }  ///< payload
  [[nodiscard]] std::int64_t exchanges() const { return exchanges_; }    ///< flushes that sent something

 private:
  // In every rank's region: a cache line for the number of messages that each rank has completed here, one for the
  // number that each has released of those from this rank, then the slots.
  /// Messages from this rank to another.
  struct Out {
    HaloTransport::Peer* peer;
    std::size_t slots_there;
    std::vector<float> copies[2];  ///< of the messages, where they do not go by stores
    std::size_t length = 0;        ///< of the one in the room
    std::int64_t posted = 0;
    bool unfinished = false;  ///< posted, and announced by flush()
  };
  /// Messages from another rank to this one.
  struct In {
    HaloTransport::Peer* peer;
    std::size_t slots;
    std::int64_t released = 0;
  };

  void expect_of_all(std::size_t floats);
  [[nodiscard]] std::size_t completed(int rank) const { return cache_line * static_cast<std::size_t>(rank); }
  [[nodiscard]] std::size_t cleared(int rank) const { return completed(ranks() + rank); }
  [[nodiscard]] HostVector<float> piece_of(HostVector<float> values, int rank, std::size_t at) const;
  [[nodiscard]] std::size_t slot_bytes(int from, int to) const;
  [[nodiscard]] std::size_t slots_of(int from, int to) const;

  int rank_, ranks_;
  std::optional<OwnedComm> group_;  ///< empty for a rank alone, which has no transport either
  TransportOptions options_;
  std::vector<std::vector<std::size_t>> lengths_;  ///< [from][to]: of the longest message
  std::vector<Out> out_;                           // whose copies outlive the transport
  std::optional<HaloTransport> transport_;
  std::vector<In> in_;
  std::vector<double> sums_;
  std::vector<float> nothing_;  ///< the zeros that a rank alone receives
  std::int64_t bytes_sent_ = 0, exchanges_ = 0;
  bool any_posted_ = false;  ///< since the last flush
};

}  // namespace halograd
