#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "mpi/unwinding.hpp"
#include "window/progress_hook.hpp"

namespace halograd {

/// Writes into the regions of other ranks by messages, which each rank receives into its own region: in the order in
/// which a rank sends them, so that a counter changes only after what was written before it has come. MPI has a few of
/// them at a time, however many are written. A ProgressThread sends and receives while its rank computes; without one,
/// they go and come when writer and reader call move_on().
class MessageTransport {
 public:
  /// Not collective. `comm`: nothing else sends messages over it. `region`: this rank's. `most_floats`: in one message.
  MessageTransport(const Communicator& comm, std::byte* region, std::size_t most_floats);
  /// Takes leave of all peers and waits until each has done the same, so that nothing is under way any more; except
  /// while an exception unwinds this rank's stack.
  ~MessageTransport();
  MessageTransport(const MessageTransport&) = delete;
  MessageTransport& operator=(const MessageTransport&) = delete;

  /// Two ranks name each other before either writes.
  void add_peer(int rank);
  /// Offsets count bytes from the start of that rank's region. `values` stay as they are until has_sent(rank).
  void write(int rank, std::size_t offset, HostVector<const float> values);
  /// Writes up to four numbers, each by one atomic store: who reads a new one finds all that was written before it.
  void write(int rank, std::size_t offset, std::span<const std::int64_t> numbers);
  /// Whether all that was written to a peer has left, so that its values may change. Goes on sending, but receives
  /// nothing.
  bool has_sent(int rank);
  bool has_sent();                             ///< to every peer
  [[nodiscard]] std::vector<int> unsent_to();  ///< the peers to which something has not left

  /// Goes on sending, and receives what has come, without waiting.
  void move_on();

 private:
  static constexpr std::size_t most_numbers = 4;
  /// What a message begins with.
  struct Heading {
    std::int64_t offset = 0;   ///< place in the reader's region; negative: the last message
    std::int64_t floats = 0;   ///< values that the next message brings
    std::int64_t numbers = 0;  ///< how many stand here
    std::array<std::int64_t, most_numbers> number{};
  };
  struct Sent {
    Heading heading;
    HostVector<const float> values;
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };
  /// Both directions between this rank and a peer.
  struct Link {
    std::deque<Sent> sent;              // not known to have left, oldest first
    std::size_t begun = 0;              // how many of these MPI has
    std::deque<MPI_Request> receiving;  // values, on their way into the region
    std::optional<Heading> after;       // to be seen to when they are there
    bool ended = false;                 // the peer has taken leave
  };

  // Compiling for AMD devices, clang 15 crashes where the map below is the first to ask this.
  static_assert(!std::is_copy_assignable_v<std::pair<const int, Link>>);

  void send(int rank, const Heading& heading, HostVector<const float> values = {});
  bool go_on_sending(int rank, Link& link);
  void receive(int rank, Link& link);
  void store_numbers(const Heading& heading);
  bool all_have_left();

  Communicator comm_;
  std::byte* region_;
  std::size_t most_floats_;
  std::mutex mutex_;  // guards all below: a progress thread comes here too
  std::map<int, Link> links_;
  Unwinding unwinding_;
  ProgressHook hook_;
};

}  // namespace halograd
