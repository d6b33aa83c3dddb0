#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/graphs.hpp"
#include "kernels/types.hpp"
#include "mpi/rank_clock.hpp"
#include "window/cache_line.hpp"
#include "window/edge_log.hpp"
#include "window/halo_transport.hpp"
#include "window/injector.hpp"

namespace halograd {

/// The two sides of pairwise gossip: ranks that ask for an exchange, and ranks that answer.
struct Sides {
  std::vector<bool> asks;  ///< whether each rank asks
  Graph partners;          ///< for each rank those on the other side, ascending
};

/// Splits an undirected connected graph into two sides with edges between them only, so that every rank still reaches
/// every other: by the parity of the ranks or of their distance from rank 0, whichever is connected and keeps more
/// edges. The larger side asks.
Sides two_sides(const Graph& graph);

/// Pairwise exchanges of weights in which nobody waits (docs/algorithms.md, "ad_psgd"). A rank that asks writes its
/// weights into a slot that it has at the other rank, and goes on; one that answers looks into its slots when it likes,
/// and writes back what both are to have. A rank that asks has one exchange under way at a time, and one that answers
/// one answer at a time to ranks that do not share memory. There is no collective, barrier or lock between construction
/// and destruction, but drain().
class PairWindow {
 public:
  /// Collective. `length` floats. Throws Error on all ranks where a node has too little shared memory.
  PairWindow(const Communicator& comm, Sides sides, std::size_t length, const TransportOptions& options);

  // For a rank that asks.
  [[nodiscard]] bool is_asking() const { return asking_; }
  /// Sends its weights, those of `step`, to partner number `partner`. They must stay as they are until the answer.
  void ask(std::size_t partner, HostVector<const float> weights, std::int64_t step);
  /// What the partner has replied, once it has come: the exchange is over. Valid until the next ask().
  std::optional<HostVector<const float>> answer(std::int64_t step);

  // For a rank that answers.
  /// A partner whose weights have come and may be answered now.
  std::optional<std::size_t> asked();
  /// What that partner has sent.
  [[nodiscard]] HostVector<const float> question(std::size_t partner) const;
  /// Sends weights back, of which the window makes a copy where they do not go by stores. The question is gone with
  /// that: its slot may be written again.
  void reply(std::size_t partner, HostVector<const float> weights, std::int64_t step);

  /// Collective. Calls `exchange`, which takes answers and replies to what was asked, and asks nothing, until no rank
  /// has an exchange under way.
  void drain(const std::function<void()>& exchange);

  /// What has come from the partners. Its ages are steps of this rank since the step that was sent, 0 where the partner
  /// is ahead.
  EdgeLog& edges() { return edges_; }

  [[nodiscard]] double wait_seconds() const { return transport_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }

 private:
  // In every rank's region: a cache line for the number of the newest question of each partner (one for that of the
  // newest answer, where the rank asks), then as many slots: a line for the stamp, whose number is the step, then
  // weights.
  [[nodiscard]] std::size_t slots_of(int rank) const;
  [[nodiscard]] std::size_t slot_at(int rank, std::size_t slot) const;
  void send(std::size_t partner, std::size_t slot_there, std::int64_t number, HostVector<const float> weights,
            std::int64_t step);
  [[nodiscard]] const HaloStamp& stamp(std::size_t slot) const { return transport_.stamp(slot_at(rank_, slot)); }
  [[nodiscard]] bool has_arrived(std::size_t slot) const { return clock_.now() >= stamp(slot).arrives; }
  void count(std::size_t partner, std::size_t slot, std::int64_t step);

  Sides sides_;
  int rank_;
  std::size_t length_, slot_bytes_;
  std::vector<float> copy_;  // the last answer, where it did not go by stores; outlives the transport
  HaloTransport transport_;
  std::vector<HaloTransport::Peer*> peers_;  // partners
  std::vector<std::size_t> slot_there_;      // the slot that this rank has at each partner
  std::vector<std::int64_t> answered_;       // the newest question of each partner
  std::size_t next_ = 0;                     // partner to look at first
  std::int64_t questions_ = 0;
  std::size_t of_ = 0;  // partner of the last question, or of the answer in copy_
  bool asking_ = false;
  std::int64_t bytes_sent_ = 0;
  RankClock clock_;
  Injector injector_;
  EdgeLog edges_;
};

}  // namespace halograd
