#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/rank_clock.hpp"
#include "mpi/unwinding.hpp"
#include "window/device_window.hpp"
#include "window/halo_values.hpp"
#include "window/message_transport.hpp"
#include "window/shared_segment.hpp"
#include "window/transport_options.hpp"

namespace halograd {

/// What lies beside a halo.
struct HaloStamp {
  std::int64_t sent = 0;     ///< when its writer gave it away (RankClock)
  std::int64_t arrives = 0;  ///< before then it does not count as arrived, where latency is injected
  std::int64_t number = 0;   ///< its version or step, or what else a window sends along
  std::int64_t label = 0;
};

/// A halo, what lies beside it, and the counter that announces both, on their way to another rank.
struct HaloMessage {
  std::size_t values_at = 0;
  HaloValues<const float> values{};
  std::size_t stamp_at = 0;
  HaloStamp stamp{};
  std::size_t counter_at = 0;
  std::int64_t counter = 0;
};

/// Moves halos and counters into the memory of other ranks: by plain stores where ranks share memory, by its Carrier
/// elsewhere. Windows say what goes where, and when. Offsets count bytes from the start of a rank's region, which is
/// zeroed. A rank may have a second region, of device memory, for halos that lie there on both sides: these always go
/// by MPI_Put, whatever the carrier of the rest. No call is collective but construction, start(), finish_with_all() and
/// destruction.
class HaloTransport {
 public:
  /// Another rank, as this one reaches it. There is one for each counter, and for each message of begin(), that this
  /// rank may have on its way to that rank.
  struct Peer {
    Peer(int to, std::byte* region) : rank(to), shared(region) {}
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    const int rank;
    std::byte* const shared;             ///< the rank's region; null: not in reach of stores
    std::int64_t counter = 0;            ///< origin of the last MPI_Accumulate
    bool in_flight = false;              ///< that one is not known to be complete
    std::optional<HaloMessage> message;  ///< what begin() was given, as long as its counter has not been set
    std::vector<MPI_Request> puts;       ///< the MPI_Rputs of that message
  };

  /// Collective; throws what SharedSegment and DeviceWindow throw. `bytes` and `device_bytes`: sizes of this rank's
  /// regions; either all ranks have one of device memory or none has.
  HaloTransport(const Communicator& comm, std::size_t bytes, const TransportOptions& options, Carrier carrier,
                std::optional<std::size_t> device_bytes = {});
  /// Collective, except while an exception unwinds this rank's stack: ends what is under way.
  ~HaloTransport();
  HaloTransport(const HaloTransport&) = delete;
  HaloTransport& operator=(const HaloTransport&) = delete;

  /// Lives as long as the transport. Two ranks name each other before either writes.
  Peer& peer(int rank);
  [[nodiscard]] int rank() const { return segment_.comm().rank(); }
  /// Whether some peer, or its device region, is reached by MPI.
  [[nodiscard]] bool uses_mpi() const { return uses_mpi_; }

  // In this rank's region.
  [[nodiscard]] std::int64_t* counter(std::size_t offset) const;
  [[nodiscard]] HostVector<const float> values(std::size_t offset, std::size_t length) const;
  [[nodiscard]] HostVector<float> own_values(std::size_t offset, std::size_t length) const;
  [[nodiscard]] HaloStamp& stamp(std::size_t offset) const;
  [[nodiscard]] Vector<const float> device_values(std::size_t offset, std::size_t length) const;
  static std::int64_t load(std::int64_t* counter);
  static void store(std::int64_t* counter, std::int64_t value);

  // In the region of a peer that shares memory.
  static HostVector<const float> values(const Peer& peer, std::size_t offset, std::size_t length);
  static const HaloStamp& stamp(const Peer& peer, std::size_t offset);

  // For writers that wait. What is written stays as it is until announce().
  /// Writes into a peer's region, or into its device region where `values` lie in device memory; what kernels write of
  /// them is fenced before.
  void write(const Peer& peer, std::size_t offset, HaloValues<const float> values);
  void write(const Peer& peer, std::size_t offset, const HaloStamp& stamp);
  /// Sets a counter of a peer, after all that was written there before by stores or messages. Where the carrier is
  /// MPI_Put, only what was announced is before it, and it is complete after complete().
  void set_counter(Peer& peer, std::size_t offset, std::int64_t value);
  /// Waits until the last counter of a peer has arrived there.
  void complete(Peer& peer);
  /// A counter of a peer that tells it of what was written there.
  struct Counter {
    Peer& peer;
    std::size_t offset;
    std::int64_t value;
  };
  /// Waits until all that was written has left and what was put to these peers has arrived, sets their counters, and
  /// waits for these to arrive. A wait of more than report_seconds is reported on stderr, with the peer.
  void announce(const std::vector<Counter>& counters);

  // For writers that wait for nobody.
  /// Sends a message to a peer that is idle. Its values stay as they are until that is idle again, which may be in the
  /// transport's destructor.
  void begin(Peer& peer, const HaloMessage& message);
  /// Whether the last message of begin() is complete, so that another one may begin. Moves it on. With Carrier::put
  /// this waits in MPI_Win_flush once the puts have left.
  bool is_idle(Peer& peer);

  /// Waits, giving up the core and keeping MPI's progress going, until a counter of this rank that `peer` writes has
  /// reached `version`; what was written before it can be read then. A wait of more than report_seconds is reported
  /// once on stderr, with `purpose` before the version. Returns the seconds that it waited.
  double await(const Peer& peer, std::int64_t* counter, std::int64_t version, const char* purpose);
  /// Says on stderr that this rank has waited for a version for so many seconds, and which is the latest it has.
  void report_late(const Peer& peer, std::int64_t version, std::int64_t latest, const char* purpose,
                   double seconds) const;
  /// Waits until `clock` has come to a time, as await() does.
  double wait_until(const RankClock& clock, std::int64_t time);
  /// Lets MPI progress what others put here, or receives their messages.
  void make_progress();
  /// Collective. Calls `go_on` until `is_done` holds on this rank and has come to hold on all others, which may need
  /// what this one does meanwhile.
  void finish_with_all(const std::function<bool()>& is_done, const std::function<void()>& go_on);
  /// Orders this rank's loads, and kernels launched from now on, after the peer's stores or puts that a counter
  /// announced.
  void sync(const Peer& peer);
  /// Collective: what all ranks have stored into their own regions is there before anything that comes from others.
  void start();

  /// In await, wait_until, announce, complete and finish_with_all, since construction.
  [[nodiscard]] double wait_seconds() const { return wait_seconds_; }

 private:
  using Requests = std::vector<MPI_Request>;
  // The requests that are started are added to `puts`.
  void write(const Peer& peer, std::size_t offset, HaloValues<const float> values, Requests& puts);
  void write(const Peer& peer, std::size_t offset, const HaloStamp& stamp, Requests& puts);
  void put(const Peer& peer, std::size_t offset, HaloValues<const float> values, const OwnedWindow& window,
           Requests& puts) const;
  /// Gives up the core until what was written has left; what is left for flush() is short.
  void wait_for_puts();
  /// Waits until what was put to a peer has arrived there.
  void flush(const Peer& peer);
  void report_under_way(int to, double seconds) const;

  std::unique_ptr<DeviceWindow> device_;  // null: none
  bool force_put_;
  SharedSegment segment_;
  std::size_t put_floats_;
  std::unique_ptr<MessageTransport> messages_;  // null: by MPI_Put, or only by stores
  bool uses_mpi_;
  std::deque<Peer> peers_;
  Requests puts_;            // since the last wait_for_puts
  std::vector<int> put_to_;  // the peers of these
  double wait_seconds_ = 0, report_seconds_;
  Unwinding unwinding_;
};

}  // namespace halograd
