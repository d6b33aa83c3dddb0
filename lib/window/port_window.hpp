#pragma once

#include <cstdint>
#include <vector>

#include "graph/dynamic_topology.hpp"
#include "kernels/types.hpp"
#include "mpi/rank_clock.hpp"
#include "window/cache_line.hpp"
#include "window/edge_log.hpp"
#include "window/halo_transport.hpp"
#include "window/injector.hpp"

namespace halograd {

/// The halo window for edges that change each step (docs/algorithms.md, "Ports"): a rank owns ports instead of slots of
/// fixed neighbours, `slots` times as many as any rank has in-edges in any step. The halo of step k goes into a port
/// that everybody can work out from the graph of step k, once the rank has told the sender that what the port held
/// before, from step k - slots and mostly from another sender, has been read. Every rank calls put, flush, wait and
/// release once for each step, in order, also where it has no edge. No collective, barrier or lock between construction
/// and destruction.
class PortWindow {
 public:
  /// What an in-neighbour has sent in a step. Valid until released.
  struct Halo {
    int rank = 0;
    double weight = 0;  ///< StepGraph::weight of the sender
    HostVector<const float> values;
    double number = 0;  ///< what the sender put beside the values
  };

  /// Collective. `length` floats a halo; `first_step` comes first. Throws Error on all ranks where their arguments
  /// differ, the topology is for another number of ranks, a node has too little shared memory, or MPI grants no unified
  /// memory model. Destruction is collective too, except while an exception unwinds this rank's stack.
  PortWindow(const Communicator& comm, DynamicTopology topology, std::size_t length, std::int64_t first_step,
             TransportOptions options);

  /// Writes this step's halo, with a number beside it, to the step's out-neighbours; waits, giving up the core, for
  /// their ports. `values` must stay as they are until flush().
  void put(std::int64_t step, HostVector<const float> values, double number = 0);
  /// Sends values of the next step's halo from number `begin` on, where those before it have been sent: put() then
  /// sends the rest. Waits like put(). The values must be final and stay as they are until the flush() after that
  /// put(), or as long as the window if none comes.
  void put_ahead(std::size_t begin, HostVector<const float> values);
  /// Ends the writes of the last step: waits until they are complete and publishes them to ranks reached by MPI.
  void flush();
  /// What the step's in-neighbours have sent, ascending by rank; waits for it, giving up the core.
  const std::vector<Halo>& wait(std::int64_t step);
  /// The step's halos have been read: their ports may be written again.
  void release(std::int64_t step);

  [[nodiscard]] const DynamicTopology& topology() const { return topology_; }
  /// What has come from each rank that has sent something since the last call.
  std::vector<EdgeRecord> take_edges();
  [[nodiscard]] double wait_seconds() const { return transport_.wait_seconds(); }  ///< since construction
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }            ///< payload since construction

 private:
  // Where things lie in every rank's region: a cache line for the newest version that each rank has completed here, one
  // for the newest that this rank may write to each rank, then the ports: a line for the halo's stamp, whose number is
  // the bits of the one that goes with it, then the halo.
  [[nodiscard]] std::size_t latest(int rank) const { return cache_line * static_cast<std::size_t>(rank); }
  [[nodiscard]] std::size_t cleared(int rank) const { return cache_line * static_cast<std::size_t>(ranks_ + rank); }
  [[nodiscard]] std::int64_t halo_bytes() const { return static_cast<std::int64_t>(length_ * sizeof(float)); }
  [[nodiscard]] std::size_t port(std::int64_t version, std::size_t number) const;
  [[nodiscard]] std::size_t checked_bytes(const Communicator& comm) const;
  /// Before the first values of a step are sent: to whom they go, and where; waits for the ports.
  void begin_put();

  DynamicTopology topology_;
  int ranks_;
  std::size_t length_, port_bytes_;
  std::int64_t slots_, first_step_;
  TransportOptions options_;
  HaloTransport transport_;
  std::vector<HaloTransport::Peer*> readers_, writers_;  // every rank, as one that is sent halos, and acknowledgements
  std::vector<int> sent_to_;                             // the ranks of the last put, or of what is sent ahead
  std::vector<std::size_t> ports_;                       // where it goes there
  std::size_t ahead_ = 0;                                // values of the next step that put_ahead() has sent
  std::vector<int> cleared_for_;       // ranks that were sent acknowledgements by MPI since the last flush
  std::vector<HaloStamp> stamps_;      // those of the last put, to each of sent_to_
  std::vector<Halo> halos_;            // those of the last wait
  std::int64_t put_step_, read_step_;  // the steps that come next
  bool flushed_ = true;
  std::int64_t bytes_sent_ = 0;
  RankClock clock_;
  Injector injector_;
  EdgeLog edges_;  // one for each rank
};

}  // namespace halograd
