#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/dynamic_topology.hpp"
#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "mpi/rank_clock.hpp"
#include "window/cache_line.hpp"
#include "window/edge_log.hpp"
#include "window/halo_transport.hpp"
#include "window/injector.hpp"

namespace halograd {

/// Messages over the edges of a graph that does not change, for ranks that wait for nobody (docs/algorithms.md,
/// "Mailboxes"). A rank has a mailbox for each of its in-neighbours. A message goes into a mailbox that is free; it is
/// free for the sender again when the receiver has released it. So no message is lost, overwritten or read twice, and
/// a sender that finds a mailbox full goes on without. No call waits for another rank, and none is collective, but
/// construction, destruction and drain().
class MailWindow {
 public:
  struct Message {
    HostVector<const float> values;  ///< valid until released
    double number = 0;               ///< what send() was given, as is the label
    std::int64_t label = 0;
  };

  /// Collective. `length` floats per message. Throws Error on all ranks where their arguments differ, the graph is for
  /// another number of ranks, a node has too little shared memory, or MPI grants no unified memory model. Destruction
  /// is collective too, except while an exception unwinds this rank's stack.
  MailWindow(const Communicator& comm, const StepGraph& graph, std::size_t length, const TransportOptions& options);

  /// Edges of this rank are numbered in the order of the ranks at their other ends.
  [[nodiscard]] std::size_t in_edges() const { return in_.size(); }
  [[nodiscard]] std::size_t out_edges() const { return out_.size(); }

  /// Whether all that was sent over an out-edge has been released there.
  bool is_free(std::size_t out_edge);
  /// Sends a message over an out-edge that is free, with a number and a label beside the values. These are copied.
  void send(std::size_t out_edge, HostVector<const float> values, double number = 0, std::int64_t label = 0);

  /// The message that has come over an in-edge since its last release, if there is one and it was not received before.
  std::optional<Message> receive(std::size_t in_edge);
  /// The message of an in-edge has been read.
  void release(std::size_t in_edge);

  /// Collective. Calls `take`, which receives and releases what has come and sends nothing, until no rank has a message
  /// under way.
  void drain(const std::function<void()>& take);

  /// What has come over the in-edges. A message counts as mixed when it is received, at an age of 0.
  EdgeLog& edges() { return edges_; }

  [[nodiscard]] double wait_seconds() const { return transport_.wait_seconds(); }  ///< since construction
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }            ///< payload, likewise

 private:
  // In every rank's region: a cache line for the number of messages that each in-neighbour has sent, one for the number
  // that each out-neighbour has released, then the mailboxes: a line for the stamp, then a message's values.
  /// One edge as this rank sees it.
  struct Edge {
    HaloTransport::Peer* peer;  // the neighbour
    std::int64_t* counter;      // here: messages that the neighbour has sent (in-edge) or released (out-edge)
    std::size_t counter_there;  // place of the number of messages that this rank has released, or sent
    std::size_t mailbox;        // here for an in-edge, there for an out-edge
    std::int64_t messages = 0;  // released, or sent
  };
  struct InEdge : Edge {
    bool open = false;  // a message is received and not released
  };
  struct OutEdge : Edge {
    std::vector<float> copy{};  // the last message's values, where they do not go by stores
  };

  [[nodiscard]] std::size_t mailbox_at(const StepGraph& graph, int rank, std::size_t number) const;

  std::size_t length_, mailbox_bytes_;
  std::vector<InEdge> in_;
  std::vector<OutEdge> out_;  // whose copies outlive the transport
  HaloTransport transport_;
  RankClock clock_;
  Injector injector_;
  EdgeLog edges_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace halograd
