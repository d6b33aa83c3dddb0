#include "window/halo_transport.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <span>

#include "mpi/most_in_a_call.hpp"
#include "mpi/wait.hpp"
#include "support/trace.hpp"

namespace halograd {
namespace {

// Counters are written by other processes, through stores or through MPI, while this one reads them.
static_assert(std::atomic_ref<std::int64_t>::is_always_lock_free);

std::int64_t* counter_at(std::byte* region, std::size_t offset) {
  return reinterpret_cast<std::int64_t*>(region + offset);
}

HaloStamp& stamp_at(std::byte* region, std::size_t offset) {
  return *reinterpret_cast<HaloStamp*>(region + offset);
}

/// A stamp as MPI carries it.
std::span<const std::int64_t> numbers_of(const HaloStamp& stamp) {
  return {&stamp.sent, sizeof stamp / sizeof stamp.sent};
}

RmaReach rma_reach(const TransportOptions& options, Carrier carrier) {
  if (carrier == Carrier::send) return RmaReach::none;
  return options.force_put ? RmaReach::all : RmaReach::other_nodes;
}

void copy(std::byte* to, const HostVector<const float>& values) {
  const Kokkos::DefaultHostExecutionSpace exec;
  Kokkos::deep_copy(exec, HostVector<float>(reinterpret_cast<float*>(to), values.extent(0)), values);
  exec.fence();
}

}  // namespace

HaloTransport::HaloTransport(const Communicator& comm, std::size_t bytes, const TransportOptions& options,
                             Carrier carrier, std::optional<std::size_t> device_bytes)
    : device_(device_bytes ? std::make_unique<DeviceWindow>(comm, *device_bytes) : nullptr),
      force_put_(options.force_put),
      segment_(comm, bytes, rma_reach(options, carrier)),
      put_floats_(std::clamp<std::size_t>(options.put_floats, 1, most_in_a_call)),
      uses_mpi_(device_ != nullptr),
      report_seconds_(options.report_seconds) {
  const bool stores_only = !force_put_ && comm.nodes() == 1;
  if (carrier == Carrier::send && !stores_only) {
    messages_ = std::make_unique<MessageTransport>(segment_.comm(), segment_.own(), put_floats_);
  }
}

HaloTransport::~HaloTransport() {
  if (unwinding_.now()) return;
  wait_for_puts();
  PolitePause pause;
  for (Peer& peer : peers_) {
    for (; !is_idle(peer); pause()) make_progress();
    complete(peer);
  }
}

HaloTransport::Peer& HaloTransport::peer(int rank) {
  std::byte* const shared = force_put_ ? nullptr : segment_.of(rank);
  if (shared == nullptr) {
    uses_mpi_ = true;
    if (messages_) messages_->add_peer(rank);
  }
  return peers_.emplace_back(rank, shared);
}

std::int64_t* HaloTransport::counter(std::size_t offset) const {
  return counter_at(segment_.own(), offset);
}

HostVector<const float> HaloTransport::values(std::size_t offset, std::size_t length) const {
  return HostVector<const float>(reinterpret_cast<const float*>(segment_.own() + offset), length);
}

HaloStamp& HaloTransport::stamp(std::size_t offset) const {
  return stamp_at(segment_.own(), offset);
}

const HaloStamp& HaloTransport::stamp(const Peer& peer, std::size_t offset) {
  return stamp_at(peer.shared, offset);
}

HostVector<const float> HaloTransport::values(const Peer& peer, std::size_t offset, std::size_t length) {
  return HostVector<const float>(reinterpret_cast<const float*>(peer.shared + offset), length);
}

HostVector<float> HaloTransport::own_values(std::size_t offset, std::size_t length) const {
  return HostVector<float>(reinterpret_cast<float*>(segment_.own() + offset), length);
}

std::int64_t HaloTransport::load(std::int64_t* counter) {
  return std::atomic_ref<std::int64_t>(*counter).load(std::memory_order_acquire);
}

void HaloTransport::store(std::int64_t* counter, std::int64_t value) {
  std::atomic_ref<std::int64_t>(*counter).store(value, std::memory_order_release);
}

Vector<const float> HaloTransport::device_values(std::size_t offset, std::size_t length) const {
  return slice(device_->own(), offset / sizeof(float), length);
}

void HaloTransport::write(const Peer& peer, std::size_t offset, HaloValues<const float> values) {
  write(peer, offset, values, puts_);
  put_to_.resize(puts_.size(), peer.rank);
}

void HaloTransport::write(const Peer& peer, std::size_t offset, const HaloStamp& stamp) {
  write(peer, offset, stamp, puts_);
  put_to_.resize(puts_.size(), peer.rank);
}

void HaloTransport::write(const Peer& peer, std::size_t offset, HaloValues<const float> values, Requests& puts) {
  if (values.memory() == HaloMemory::device) {
    put(peer, offset, values, device_->window(), puts);
  } else if (peer.shared != nullptr) {
    copy(peer.shared + offset, values);
  } else if (messages_) {
    messages_->write(peer.rank, offset, values);
  } else {
    put(peer, offset, values, segment_.window(), puts);
  }
}

void HaloTransport::write(const Peer& peer, std::size_t offset, const HaloStamp& stamp, Requests& puts) {
  const auto numbers = numbers_of(stamp);
  if (peer.shared != nullptr) {
    stamp_at(peer.shared, offset) = stamp;
  } else if (messages_) {
    messages_->write(peer.rank, offset, numbers);
  } else {
    const int count = static_cast<int>(numbers.size());
    MPI_Rput(numbers.data(), count, MPI_INT64_T, peer.rank, static_cast<MPI_Aint>(offset), count, MPI_INT64_T,
             segment_.window().handle(), &puts.emplace_back());
  }
}

void HaloTransport::put(const Peer& peer, std::size_t offset, HaloValues<const float> values, const OwnedWindow& window,
                        Requests& puts) const {
  for (std::size_t begin = 0; begin < values.length(); begin += put_floats_) {
    const int count = static_cast<int>(std::min(put_floats_, values.length() - begin));
    const auto place = static_cast<MPI_Aint>(offset + begin * sizeof(float));
    MPI_Rput(values.data() + begin, count, MPI_FLOAT, peer.rank, place, count, MPI_FLOAT, window.handle(),
             &puts.emplace_back());
  }
}

void HaloTransport::set_counter(Peer& peer, std::size_t offset, std::int64_t value) {
  if (peer.shared != nullptr) {
    store(counter_at(peer.shared, offset), value);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // what is written into the next slot comes after it
    return;
  }
  if (messages_) return messages_->write(peer.rank, offset, std::span<const std::int64_t>(&value, 1));
  complete(peer);  // before its origin is written to again
  peer.counter = value;
  MPI_Accumulate(&peer.counter, 1, MPI_INT64_T, peer.rank, static_cast<MPI_Aint>(offset), 1, MPI_INT64_T, MPI_REPLACE,
                 segment_.window().handle());
  peer.in_flight = true;
}

void HaloTransport::wait_for_puts() {
  const trace::Span span("flush", "comm");
  // MPI_Win_flush spins until it is done: where ranks share cores, waiting for the requests first, which gives up the
  // core, leaves it little to wait for.
  for (std::size_t i = 0; i < puts_.size(); ++i) {
    const auto has_left = [&] {
      int done = 0;
      MPI_Test(&puts_[i], &done, MPI_STATUS_IGNORE);
      return done != 0;
    };
    wait_seconds_ +=
        wait_and_report(has_left, report_seconds_, [&](double seconds) { report_under_way(put_to_[i], seconds); });
  }
  puts_.clear();
  put_to_.clear();
  if (!messages_) return;
  const auto have_left = [this] {
    if (messages_->has_sent()) return true;
    messages_->move_on();  // the reader may be waiting here for this one's
    return false;
  };
  wait_seconds_ += wait_and_report(have_left, report_seconds_, [this](double seconds) {
    for (const int to : messages_->unsent_to()) report_under_way(to, seconds);
  });
}

void HaloTransport::flush(const Peer& peer) {
  const bool by_window = peer.shared == nullptr && !messages_;
  if (!by_window && !device_) return;
  const PolitePause time;
  if (device_) MPI_Win_flush(peer.rank, device_->window().handle());
  if (by_window) MPI_Win_flush(peer.rank, segment_.window().handle());
  wait_seconds_ += time.seconds();
  if (time.seconds() > report_seconds_) report_under_way(peer.rank, time.seconds());  // MPI does not let it be sooner
}

void HaloTransport::announce(const std::vector<Counter>& counters) {
  wait_for_puts();
  // A counter may not overtake what it tells of: MPI orders a put and an accumulate only by a flush between them.
  for (const Counter& counter : counters) flush(counter.peer);
  for (const Counter& counter : counters) set_counter(counter.peer, counter.offset, counter.value);
  for (const Counter& counter : counters) complete(counter.peer);
}

void HaloTransport::complete(Peer& peer) {
  if (!peer.in_flight) return;
  flush(peer);
  peer.in_flight = false;
}

void HaloTransport::begin(Peer& peer, const HaloMessage& message) {
  peer.message = message;
  write(peer, message.values_at, message.values, peer.puts);
  write(peer, message.stamp_at, peer.message->stamp, peer.puts);
  is_idle(peer);
}

bool HaloTransport::is_idle(Peer& peer) {
  if (peer.message) {
    int done = 0;
    MPI_Testall(static_cast<int>(peer.puts.size()), peer.puts.data(), &done, MPI_STATUSES_IGNORE);
    if (done == 0) return false;
    peer.puts.clear();
    flush(peer);  // the counter may not overtake the halo
    set_counter(peer, peer.message->counter_at, peer.message->counter);
    complete(peer);
    peer.message.reset();
  }
  return peer.shared != nullptr || !messages_ || messages_->has_sent(peer.rank);
}

double HaloTransport::await(const Peer& peer, std::int64_t* counter, std::int64_t version, const char* purpose) {
  double waited = 0;
  if (load(counter) < version) {
    const auto has_come = [&] {
      make_progress();
      return load(counter) >= version;
    };
    waited = wait_and_report(has_come, report_seconds_,
                             [&](double seconds) { report_late(peer, version, load(counter), purpose, seconds); });
    wait_seconds_ += waited;
  }
  sync(peer);
  return waited;
}

void HaloTransport::report_late(const Peer& peer, std::int64_t version, std::int64_t latest, const char* purpose,
                                double seconds) const {
  std::fprintf(stderr, "rank %d waits for rank %d: %sversion %lld, latest %lld, %.3g s\n", rank(), peer.rank, purpose,
               static_cast<long long>(version), static_cast<long long>(latest), seconds);
}

void HaloTransport::report_under_way(int to, double seconds) const {
  std::fprintf(stderr, "rank %d waits for rank %d: weights on their way there, %.3g s\n", rank(), to, seconds);
}

double HaloTransport::wait_until(const RankClock& clock, std::int64_t time) {
  if (clock.now() >= time) return 0;
  PolitePause pause;
  while (clock.now() < time) {
    make_progress();
    pause();
  }
  wait_seconds_ += pause.seconds();
  return pause.seconds();
}

void HaloTransport::make_progress() {
  if (!uses_mpi_) return;
  if (messages_) return messages_->move_on();
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, segment_.comm().handle(), &found, MPI_STATUS_IGNORE);
}

void HaloTransport::finish_with_all(const std::function<bool()>& is_done, const std::function<void()>& go_on) {
  const trace::Span span("wait", "comm");
  const double before = wait_seconds_;
  PolitePause pause;
  for (; !is_done(); pause()) go_on();
  OwnedRequest barrier;
  MPI_Ibarrier(segment_.comm().handle(), barrier.start());
  for (; !barrier.test(); pause()) go_on();
  wait_seconds_ = before + pause.seconds();  // with what go_on has waited
}

// This relies on the device window: MPI_Win_flush has completed a put at its target before the origin sets the
// counter; in the unified memory model what is complete there is in the memory itself, and MPI_Win_sync by its owner,
// after it has seen the counter, orders what the owner then does after it; and a kernel launched then sees all that was
// in the device's memory before the launch, whoever wrote it (CUDA documents this of GPUDirect RDMA; assumed of HIP).
void HaloTransport::sync(const Peer& peer) {
  if (device_) device_->window().sync();
  if (peer.shared == nullptr) segment_.sync();
}

void HaloTransport::start() {
  segment_.sync();
  segment_.comm().barrier();  // no neighbour's first write may come before
}

}  // namespace halograd
