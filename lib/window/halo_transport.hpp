#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/rank_clock.hpp"
#include "window/device_window.hpp"
#include "window/halo_values.hpp"
#include "window/shared_segment.hpp"
#include "window/transport_options.hpp"

namespace halograd {

/// Moves halos and counters into the memory of other ranks: by plain stores where ranks share memory, by MPI_Put and
/// MPI_Accumulate elsewhere. HaloWindow and PortWindow say what goes where, and when. Offsets count bytes from the
/// start of a rank's region, which is zeroed. A rank may have a second region, of device memory, for halos that lie
/// there on both sides: these always go by MPI_Put. No call but construction, start() and destruction is collective.
class HaloTransport {
 public:
  /// Another rank, as this one reaches it. There is one for each counter that this rank may have on its way to that
  /// rank.
  struct Peer {
    int rank = 0;
    std::byte* shared = nullptr;  ///< the rank's region; null: by MPI
    std::int64_t message = 0;     ///< origin of the last MPI_Accumulate
    bool in_flight = false;       ///< that one is not known to be complete
  };

  /// Collective; throws what SharedSegment and DeviceWindow throw. `bytes` of this rank, and of its device region where
  /// the ranks have one: all or none.
  HaloTransport(const Communicator& comm, std::size_t bytes, const TransportOptions& options,
                std::optional<std::size_t> device_bytes = {});

  Peer peer(int rank);
  [[nodiscard]] int rank() const { return segment_.comm().rank(); }
  /// Whether some peer, or its device region, is reached by MPI.
  [[nodiscard]] bool uses_mpi() const { return uses_mpi_; }

  // In this rank's region.
  [[nodiscard]] std::int64_t* counter(std::size_t offset) const;
  [[nodiscard]] HostVector<const float> values(std::size_t offset, std::size_t length) const;
  [[nodiscard]] HostVector<float> own_values(std::size_t offset, std::size_t length) const;
  [[nodiscard]] Vector<const float> device_values(std::size_t offset, std::size_t length) const;
  static std::int64_t load(std::int64_t* counter);
  static void store(std::int64_t* counter, std::int64_t value);

  /// In the region of a peer that shares memory.
  static std::int64_t* counter(const Peer& peer, std::size_t offset);
  static HostVector<const float> values(const Peer& peer, std::size_t offset, std::size_t length);
  /// Writes into a peer's region, or into its device region where `values` lie in device memory. By MPI, `values` stay
  /// as they are until wait_for_puts() and flush() of that peer; what kernels write of them is fenced before.
  void write(const Peer& peer, std::size_t offset, HaloValues<const float> values);
  /// The same for a few numbers.
  void write(const Peer& peer, std::size_t offset, std::span<const std::int64_t> numbers);
  /// Sets a counter of a peer after all that was written there before by stores. By MPI only what was flushed is before
  /// it, and it is complete after complete().
  void set_counter(Peer& peer, std::size_t offset, std::int64_t value);
  /// Waits, giving up the core, until the puts have left; what is left for flush() is short.
  void wait_for_puts();
  void flush(const Peer& peer);
  void complete(Peer& peer);

  /// Waits, giving up the core and keeping MPI's progress going, until a counter of this rank that `peer` writes has
  /// reached `version`; what was written before it can be read then. A wait of more than report_seconds is told once on
  /// stderr, with `purpose` before the version. Returns the seconds that it waited.
  double await(const Peer& peer, std::int64_t* counter, std::int64_t version, const char* purpose);
  /// Says on stderr that this rank has waited so long for a version.
  void report_late(const Peer& peer, std::int64_t* counter, std::int64_t version, const char* purpose,
                   double seconds) const;
  /// Waits until `clock` has come to a time, as await() does.
  double wait_until(const RankClock& clock, std::int64_t time);
  void make_progress();
  /// Orders this rank's loads, and kernels launched from now on, after the peer's stores or puts that a counter
  /// announced.
  void sync(const Peer& peer);
  /// Collective: what all ranks have stored into their own regions is there before anything that comes from others.
  void start();

  [[nodiscard]] double wait_seconds() const { return wait_seconds_; }  ///< in await and wait_for_puts and flush

 private:
  void put(const Peer& peer, std::size_t offset, HaloValues<const float> values, const OwnedWindow& window);

  std::unique_ptr<DeviceWindow> device_;  // null: none
  SharedSegment segment_;
  bool force_put_;
  std::size_t put_floats_;
  bool uses_mpi_;
  std::vector<MPI_Request> puts_;  // since the last wait_for_puts
  double wait_seconds_ = 0, report_seconds_;
};

}  // namespace halograd
