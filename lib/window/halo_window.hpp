#pragma once

#include <cstdint>
#include <memory>

#include "graph/topology.hpp"
#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "window/edge_log.hpp"
#include "window/halo_values.hpp"
#include "window/transport_options.hpp"

namespace halograd {

/// The neighbours' weights as a rank mixes them: one region of memory per rank for all parameters and all edges
/// (docs/algorithms.md, "Halo window"). It holds `slots` versions of the rank's own weights, which neighbours that
/// share memory read there, and of the weights of each other in-neighbour, which come by the carrier of the options:
/// MPI_Put or messages. It also holds the latest version of each in-edge and the acknowledgement of each out-edge.
/// Versions are 1, 2, 3, ... and every rank publishes each one once. There is no collective, barrier or exclusive lock
/// between construction and destruction, but start_at().
///
/// Readers of an `exact` window take every version in turn with wait() and release(); acknowledgements keep writers
/// from lapping them. Readers of the other kind take what is there with copy_latest(); writers never wait for them. In
/// a `free` one they do not wait for the network either: versions are copied before they are sent, to a neighbour on
/// another node at most one is under way, and the newest one follows when it is complete. Those between are skipped.
///
/// Under an injected bandwidth no rank reads another's slots: every edge counts as one between nodes, also where it is
/// made of stores, so that it takes its share of the bandwidth.
///
/// With Options::memory = device, weights and halos lie in device memory on both sides, and each edge is an MPI_Put
/// from one to the other, inside a node too; a rank then keeps no versions of its own weights for others to read.
class HaloWindow {
 public:
  struct Options : TransportOptions {
    bool exact = true;                     ///< readers take every version
    bool free = false;                     ///< not exact, and writers do not even wait for what they send themselves
    HaloMemory memory = HaloMemory::host;  ///< where halos lie on both sides; device: see window/halo_place.hpp
  };

  /// Collective. `length` floats a halo. Throws Error on all ranks where their arguments differ, the topology is for
  /// another number of ranks, a node has too little shared memory or a device too little of its own, or MPI grants no
  /// unified memory model.
  HaloWindow(const Communicator& comm, const Topology& topology, std::size_t length, Options options);
  /// Collective, except while an exception unwinds this rank's stack.
  ~HaloWindow();
  HaloWindow(const HaloWindow&) = delete;
  HaloWindow& operator=(const HaloWindow&) = delete;

  /// Writes this version, the one after the last, for every out-neighbour: by plain stores, once for all that share
  /// memory and published at once, and by MPI to each of the others. In an exact window, waits (giving up the core)
  /// while a neighbour has not yet acknowledged version - slots. `weights`, in the memory of the options and written by
  /// no kernel any more, must stay as they are until flush(); in a free window until the end of this call.
  void put(std::int64_t version, HaloValues<const float> weights);

  /// Where ranks that share memory will read the version after the last: writing it there saves its put() the copy.
  /// Waits like put(). Empty where no rank will.
  HostVector<float> next_slot();

  /// Sends the weights of the version after the last from number `begin` on, where those before it have been sent, to
  /// neighbours that MPI reaches: put() then sends them the rest. Waits like put(). The weights must be final and stay
  /// as they are until the flush() after that put(), or as long as the window if none comes. A free window sends
  /// nothing ahead.
  void put_ahead(std::size_t begin, HaloValues<const float> weights);

  /// Ends the writes of the last version: waits until they are complete and publishes the version to ranks that it went
  /// to by MPI. In a free window there is nothing to wait for.
  void flush();

  /// Keeps MPI's progress going, and in a free window sends the newest version to neighbours to which nothing is under
  /// way any more. copy_latest() does neither: its user calls this once per step, and between two looks where it waits.
  void move_on();

  /// The halo of in-neighbour number `edge` (position in Topology::in_neighbours) at exactly `version`: waits for it,
  /// giving up the core and keeping MPI's progress going. It lies in the memory of the options and is valid until it is
  /// released, for kernels launched from now on. A wait of more than report_seconds is reported once on stderr.
  HaloValues<const float> wait(int edge, std::int64_t version);

  /// Tells in-neighbour number `edge` that `version` has been read, by kernels too, so that its slot may be written
  /// again.
  void release(int edge, std::int64_t version);

  /// For a window that is not exact: copies the newest complete version of in-neighbour number `edge`, never a torn
  /// one, and returns its number; returns `have` and copies nothing where there is none newer. Copies again where the
  /// writer has overwritten the slot meanwhile, so that with 3 slots and more it hardly ever does.
  std::int64_t copy_latest(int edge, std::int64_t have, HaloValues<float> to);

  /// Says on stderr that this rank has waited for `version` of in-neighbour number `edge` for so many seconds, and that
  /// `latest` is the newest one that it has.
  void report_late(int edge, std::int64_t version, std::int64_t latest, double seconds) const;

  /// What has come over the in-edges. The window counts what is taken from it and waited for, its user what is mixed.
  EdgeLog& edges();

  /// After a resume: the next version to be published is `version` + 1 everywhere. Collective; before the first put.
  void start_at(std::int64_t version);

  /// Seconds in wait(), in flush(), and in put() for acknowledgements, since construction.
  [[nodiscard]] double wait_seconds() const;
  [[nodiscard]] std::int64_t bytes_sent() const;  ///< payload since construction
  [[nodiscard]] int stored_edges() const;         ///< out-edges whose readers find halos in this rank's own slots

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace halograd
