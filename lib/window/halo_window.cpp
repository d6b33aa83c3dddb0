#include "window/halo_window.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/rank_clock.hpp"
#include "support/trace.hpp"
#include "window/halo_buffer.hpp"
#include "window/halo_layout.hpp"
#include "window/halo_transport.hpp"
#include "window/injector.hpp"
#include "window/progress_hook.hpp"

namespace halograd {

namespace {

std::vector<int> ranks_of(const std::vector<Neighbour>& neighbours) {
  std::vector<int> ranks;
  ranks.reserve(neighbours.size());
  for (const Neighbour& neighbour : neighbours) ranks.push_back(neighbour.rank);
  return ranks;
}

std::size_t position(const std::vector<Neighbour>& neighbours, int rank) {
  const auto found =
      std::find_if(neighbours.begin(), neighbours.end(), [rank](const Neighbour& n) { return n.rank == rank; });
  return static_cast<std::size_t>(found - neighbours.begin());
}

/// Device memory goes by MPI_Put.
Carrier carrier_of(const HaloWindow::Options& options) {
  if (options.memory == HaloMemory::device) return Carrier::put;
  return options.free ? options.free_carrier : options.carrier;
}

/// With an injected bandwidth a halo lies in its slot as long as a network would have it under way: one slot more, as
/// readers go on with the one before it.
HaloWindow::Options with_room(HaloWindow::Options options) {
  if (options.inject.bandwidth_mb > 0 && !options.exact && options.slots >= 2) ++options.slots;
  return options;
}

}  // namespace

class HaloWindow::Implementation {
 public:
  Implementation(const Communicator& comm, const Topology& topology, std::size_t length, Options options);

  void put(std::int64_t version, HaloValues<const float> weights);
  HostVector<float> next_slot();
  void put_ahead(std::size_t begin, HaloValues<const float> weights);
  void flush();
  void move_on();
  HaloValues<const float> wait(int edge, std::int64_t version);
  void release(int edge, std::int64_t version);
  std::int64_t copy_latest(int edge, std::int64_t have, HaloValues<float> to);
  void report_late(int edge, std::int64_t version, std::int64_t latest, double seconds) const;
  void start_at(std::int64_t version);

  [[nodiscard]] EdgeLog& edges() { return edges_; }
  [[nodiscard]] double wait_seconds() const { return transport_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const {
    const std::lock_guard lock(mutex_);
    return bytes_sent_;
  }
  [[nodiscard]] int stored_edges() const { return stored_; }

 private:
  /// One edge as this rank sees it. Its halos are numbered in the order in which they are sent: by their versions,
  /// where each version is sent.
  struct Edge {
    HaloTransport::Peer& peer;  // the neighbour
    bool stored;                // the reader finds halos where the writer has stored them for all of its node
    std::size_t number_there;   // place of this edge among the neighbour's out-edges (its in-edges, for an out-edge)
    HaloLayout layout_there;
    std::int64_t* counter;    // on this rank: what the neighbour has published (in-edge) or acknowledged (out-edge)
    std::int64_t number = 0;  // the last halo that this rank has sent, or taken with copy_latest()
    HaloStamp stamp{};        // what went with the last halo that was sent
    std::size_t staged = 0;   // where that one lies in staging_
  };

  /// Out-edges from the next higher rank on, round: so not all ranks send to rank 0 first.
  Edge& out_edge_in_turn(std::size_t i) { return out_edges_[(first_out_ + i) % out_edges_.size()]; }
  Edge make_edge(int neighbour, const std::vector<Neighbour>& edges_there, HaloLayout layout_there,
                 std::size_t counter_here);
  [[nodiscard]] bool has_far_edges() const { return stored_ < static_cast<int>(out_edges_.size()); }
  /// Before a version is written where another one was.
  void free_slot(std::int64_t version);
  /// Where halo number `number` of an out-edge lies at its reader.
  [[nodiscard]] std::size_t values_there(const Edge& edge, std::int64_t number) const {
    const HaloLayout& there = edge.layout_there;
    return memory_ == HaloMemory::device ? there.device_slot(edge.number_there, number)
                                         : there.slot(edge.number_there, number);
  }
  /// The newest version as the next halo of an edge.
  HaloMessage next_message(Edge& edge, std::int64_t now, HaloValues<const float> weights);
  /// Copies weights to where they stay until they have been sent.
  void stage(HaloValues<const float> weights);
  /// Sends the newest version to neighbours that do not have it, as far as nothing is under way to them. With mutex_.
  void send_newest();
  /// Where halo number `number` of an in-neighbour is read, and what lies beside it.
  [[nodiscard]] HaloValues<const float> halo(std::size_t edge, std::int64_t number) const;
  [[nodiscard]] HaloStamp stamp_of(std::size_t edge, std::int64_t number) const;
  /// The number of the newest halo that is not lost and has arrived, of those whose slots are still whole; that of the
  /// last one taken: there is none that is newer.
  [[nodiscard]] std::int64_t arrived(std::size_t edge, std::int64_t latest) const;

  [[nodiscard]] std::int64_t halo_bytes() const { return static_cast<std::int64_t>(length_ * sizeof(float)); }

  HaloMemory memory_;
  std::vector<int> nodes_;
  HaloLayout layout_;
  std::vector<HaloBuffer> staging_;  // free: weights under way, and the newest ones; outlives the transport
  HaloTransport transport_;
  std::size_t length_;
  int rank_, stored_ = 0;  // out-edges
  std::int64_t slots_;
  bool exact_, free_;
  std::vector<Edge> in_edges_, out_edges_;
  std::size_t first_out_ = 0;           // where out_edge_in_turn() begins
  std::vector<std::int64_t> released_;  // per in-edge
  std::int64_t version_ = 0;            // last put
  std::int64_t written_ = 0;            // the last version that next_slot() gave away
  std::size_t ahead_ = 0;               // values of the version after the last that put_ahead() has sent
  bool flushed_ = true;
  std::int64_t bytes_sent_ = 0;
  RankClock clock_;
  Injector injector_;
  bool injects_;  // latency or losses
  EdgeLog edges_;
  HaloStamp stamp_{};         // what goes with the last put
  std::size_t newest_ = 0;    // where in staging_ the last put is
  mutable std::mutex mutex_;  // guards all that send_newest() uses: a progress thread comes there too
  std::optional<ProgressHook> hook_;
};

HaloWindow::Implementation::Implementation(const Communicator& comm, const Topology& topology, std::size_t length,
                                           Options options)
    : memory_(options.memory),
      nodes_(checked_nodes(comm, topology, length, options)),
      layout_(topology, nodes_, comm.rank(), length, options.slots, memory_),
      transport_(comm, layout_.bytes(), options, carrier_of(options),
                 memory_ == HaloMemory::device ? std::optional(layout_.device_bytes()) : std::nullopt),
      length_(length),
      rank_(transport_.rank()),
      slots_(options.slots),
      exact_(options.exact),
      free_(options.free),
      clock_(comm),
      injector_(options.inject),
      injects_(options.inject.latency_us > 0 || options.inject.bandwidth_mb > 0 || options.inject.drop_fraction > 0),
      edges_(ranks_of(topology.in_neighbours(rank_)), length * sizeof(float)) {
  const auto layout_of = [&](int rank) { return HaloLayout(topology, nodes_, rank, length, options.slots, memory_); };
  for (const Neighbour& neighbour : topology.in_neighbours(rank_)) {
    in_edges_.push_back(make_edge(neighbour.rank, topology.out_neighbours(neighbour.rank), layout_of(neighbour.rank),
                                  layout_.latest(in_edges_.size())));
  }
  for (const Neighbour& neighbour : topology.out_neighbours(rank_)) {
    out_edges_.push_back(make_edge(neighbour.rank, topology.in_neighbours(neighbour.rank), layout_of(neighbour.rank),
                                   layout_.acknowledged(out_edges_.size())));
    if (out_edges_.back().stored) ++stored_;
    if (neighbour.rank < rank_) first_out_ = out_edges_.size();
  }
  released_.assign(in_edges_.size(), 0);
  // Not where stores stand for a network: a progress thread starts messages, but no kernel, which a copy is.
  const bool all_by_messages = std::all_of(out_edges_.begin(), out_edges_.end(),
                                           [](const Edge& edge) { return edge.stored || edge.peer.shared == nullptr; });
  if (!free_ || !has_far_edges() || carrier_of(options) != Carrier::send || !all_by_messages) return;
  hook_.emplace([this] {  // so that the network is never idle while there is something newer
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) send_newest();
  });
}

HaloWindow::Implementation::Edge HaloWindow::Implementation::make_edge(int neighbour,
                                                                       const std::vector<Neighbour>& edges_there,
                                                                       HaloLayout layout_there,
                                                                       std::size_t counter_here) {
  const bool stored = nodes_[static_cast<std::size_t>(neighbour)] == nodes_[static_cast<std::size_t>(rank_)];
  return {transport_.peer(neighbour), stored, position(edges_there, rank_), std::move(layout_there),
          transport_.counter(counter_here)};
}

void HaloWindow::Implementation::put(std::int64_t version, HaloValues<const float> weights) {
  HALOGRAD_REQUIRE(version == version_ + 1 && flushed_, "halo window: put of version ", version, " after ",
                   flushed_ ? "" : "unflushed ", "version ", version_);
  HALOGRAD_REQUIRE(weights.length() == length_, "halo window: ", weights.length(), " weights; expected ", length_);
  HALOGRAD_REQUIRE(weights.memory() == memory_, "halo window: weights are not in the memory of its halos");
  const trace::Span span("put", "comm");
  const std::lock_guard lock(mutex_);
  version_ = version;
  flushed_ = false;
  const std::int64_t now = clock_.now();
  stamp_ = {.sent = now, .arrives = now, .number = version};
  free_slot(version);
  if (stored_ > 0) {
    const std::size_t slot = layout_.own_slot(version);
    if (written_ != version) copy_halo(weights, transport_.own_values(slot, length_));
    stamp_.arrives = injector_.arrives(now, stored_ * halo_bytes());
    transport_.stamp(layout_.stamp(slot)) = stamp_;
    bytes_sent_ += stored_ * halo_bytes();
  }
  for (std::size_t i = 0; i < out_edges_.size(); ++i) {
    Edge& edge = out_edge_in_turn(i);
    if (edge.stored) {
      transport_.set_counter(edge.peer, edge.layout_there.latest(edge.number_there), version);
    } else if (!free_) {
      const HaloMessage message = next_message(edge, now, weights);
      transport_.write(edge.peer, message.values_at + ahead_ * sizeof(float),
                       message.values.part(ahead_, length_ - ahead_));
      transport_.write(edge.peer, message.stamp_at, edge.stamp);
    }
  }
  ahead_ = 0;
  if (!free_ || !has_far_edges()) return;
  stage(weights);
  send_newest();
}

HaloMessage HaloWindow::Implementation::next_message(Edge& edge, std::int64_t now, HaloValues<const float> weights) {
  edge.stamp = stamp_;
  edge.stamp.arrives = injector_.arrives(now, halo_bytes());
  ++edge.number;
  bytes_sent_ += halo_bytes();
  const HaloLayout& there = edge.layout_there;
  return {.values_at = values_there(edge, edge.number),
          .values = weights,
          .stamp_at = there.stamp(there.slot(edge.number_there, edge.number)),
          .stamp = edge.stamp,
          .counter_at = there.latest(edge.number_there),
          .counter = edge.number};
}

void HaloWindow::Implementation::stage(HaloValues<const float> weights) {
  const auto is_under_way = [&](std::size_t number) {
    return std::any_of(out_edges_.begin(), out_edges_.end(), [&](const Edge& edge) {
      return !edge.stored && edge.staged == number && !transport_.is_idle(edge.peer);
    });
  };
  newest_ = 0;
  while (newest_ < staging_.size() && is_under_way(newest_)) ++newest_;
  if (newest_ == staging_.size()) staging_.emplace_back(memory_, length_);
  copy_halo(weights, staging_[newest_].values());
}

void HaloWindow::Implementation::send_newest() {
  for (std::size_t i = 0; i < out_edges_.size(); ++i) {
    Edge& edge = out_edge_in_turn(i);
    if (edge.stored || edge.stamp.number == version_ || !transport_.is_idle(edge.peer)) continue;
    const std::int64_t now = clock_.now();
    if (edge.stamp.arrives > now) continue;
    edge.staged = newest_;
    transport_.begin(edge.peer, next_message(edge, now, staging_[newest_].values().to_read()));
  }
}

HostVector<float> HaloWindow::Implementation::next_slot() {
  if (stored_ == 0) return {};
  written_ = version_ + 1;
  free_slot(written_);
  return transport_.own_values(layout_.own_slot(written_), length_);
}

void HaloWindow::Implementation::put_ahead(std::size_t begin, HaloValues<const float> weights) {
  if (free_ || !has_far_edges()) return;
  HALOGRAD_REQUIRE(flushed_ && begin == ahead_ && weights.memory() == memory_, "halo window: weights from number ",
                   begin, " on ahead of version ", version_ + 1, ", of which ", ahead_, " are sent",
                   flushed_ ? "" : "; the version before is not flushed");
  const trace::Span span("put", "comm");
  free_slot(version_ + 1);
  for (std::size_t i = 0; i < out_edges_.size(); ++i) {
    const Edge& edge = out_edge_in_turn(i);
    if (edge.stored) continue;
    transport_.write(edge.peer, values_there(edge, edge.number + 1) + begin * sizeof(float), weights);
  }
  ahead_ += weights.length();
}

void HaloWindow::Implementation::free_slot(std::int64_t version) {
  if (!exact_) return;
  for (const Edge& edge : out_edges_) {
    transport_.await(edge.peer, edge.counter, version - slots_, "acknowledgement of ");
  }
}

void HaloWindow::Implementation::flush() {
  if (flushed_) return;
  flushed_ = true;
  if (free_) return;
  transport_.wait_until(clock_, injector_.all_left());
  if (!has_far_edges() && !transport_.uses_mpi()) return;
  std::vector<HaloTransport::Counter> versions;
  for (Edge& edge : out_edges_) {
    if (!edge.stored) versions.push_back({edge.peer, edge.layout_there.latest(edge.number_there), edge.number});
  }
  transport_.announce(versions);
  for (Edge& edge : in_edges_) transport_.complete(edge.peer);
}

void HaloWindow::Implementation::move_on() {
  transport_.make_progress();
  if (!free_) return;
  const std::lock_guard lock(mutex_);
  send_newest();
}

HaloValues<const float> HaloWindow::Implementation::halo(std::size_t edge, std::int64_t number) const {
  const Edge& from = in_edges_[edge];
  if (from.stored) return HaloTransport::values(from.peer, from.layout_there.own_slot(number), length_);
  if (memory_ == HaloMemory::host) return transport_.values(layout_.slot(edge, number), length_);
  return HaloValues<const float>::on_device(transport_.device_values(layout_.device_slot(edge, number), length_));
}

HaloStamp HaloWindow::Implementation::stamp_of(std::size_t edge, std::int64_t number) const {
  const Edge& from = in_edges_[edge];
  if (!from.stored) return transport_.stamp(layout_.stamp(layout_.slot(edge, number)));
  return HaloTransport::stamp(from.peer, from.layout_there.stamp(from.layout_there.own_slot(number)));
}

HaloValues<const float> HaloWindow::Implementation::wait(int edge, std::int64_t version) {
  HALOGRAD_REQUIRE(exact_ && version == released_.at(edge) + 1, "halo window: wait for version ", version, " of edge ",
                   edge, " after the release of version ", released_[edge]);
  const trace::Span span("wait", "comm");
  const auto number = static_cast<std::size_t>(edge);
  double waited = transport_.await(in_edges_[number].peer, in_edges_[number].counter, version, "");
  const HaloStamp stamp = stamp_of(number, version);
  waited += transport_.wait_until(clock_, stamp.arrives);
  edges_.waited(edge, waited);
  edges_.taken(edge, 1, 1e-9 * static_cast<double>(clock_.now() - stamp.sent));
  edges_.mixed(edge, 0);
  return halo(number, version);
}

void HaloWindow::Implementation::release(int edge, std::int64_t version) {
  HALOGRAD_REQUIRE(version == released_.at(edge) + 1, "halo window: release of version ", version, " of edge ", edge,
                   " after the release of version ", released_[edge]);
  released_[edge] = version;
  Edge& in_edge = in_edges_[edge];
  // By MPI the acknowledgement is not waited for here: its target may be computing. It is complete by the next flush().
  transport_.set_counter(in_edge.peer, in_edge.layout_there.acknowledged(in_edge.number_there), version);
}

// While halo l is the latest, l + 1 may be on its way into its slot, which was that of l + 1 - slots. So what was
// copied of halo n is whole if, after the copy, the latest is still below n + slots - 1.
std::int64_t HaloWindow::Implementation::copy_latest(int edge, std::int64_t have, HaloValues<float> to) {
  HALOGRAD_REQUIRE(!exact_, "halo window: copy_latest from a window of exact versions");
  const auto at = static_cast<std::size_t>(edge);
  Edge& in_edge = in_edges_.at(at);
  for (;;) {  // again only after the writer has published another one
    const std::int64_t latest = HaloTransport::load(in_edge.counter);
    if (latest <= in_edge.number) return have;
    transport_.sync(in_edge.peer);
    const std::int64_t number = arrived(at, latest);
    if (number <= in_edge.number) return have;
    copy_halo(halo(at, number), to);
    const HaloStamp stamp = stamp_of(at, number);
    std::atomic_thread_fence(std::memory_order_acquire);  // the copy's loads stay before the next one of the counter
    transport_.sync(in_edge.peer);
    if (HaloTransport::load(in_edge.counter) >= number + slots_ - 1) continue;
    in_edge.number = number;
    edges_.taken(edge, stamp.number - have, 1e-9 * static_cast<double>(clock_.now() - stamp.sent));
    return stamp.number;
  }
}

std::int64_t HaloWindow::Implementation::arrived(std::size_t edge, std::int64_t latest) const {
  if (!injects_) return latest;
  const std::int64_t have = in_edges_[edge].number, now = clock_.now();
  for (std::int64_t number = latest; number > std::max(have, latest - slots_ + 1); --number) {
    const HaloStamp stamp = stamp_of(edge, number);
    const bool lost = injector_.drops(in_edges_[edge].peer.rank, rank_, stamp.number);
    if (!lost && stamp.arrives <= now) return number;
  }
  return have;
}

void HaloWindow::Implementation::report_late(int edge, std::int64_t version, std::int64_t latest,
                                             double seconds) const {
  transport_.report_late(in_edges_.at(static_cast<std::size_t>(edge)).peer, version, latest, "", seconds);
}

void HaloWindow::Implementation::start_at(std::int64_t version) {
  HALOGRAD_REQUIRE(version_ == 0 && flushed_, "halo window: start_at after the first put");
  HALOGRAD_REQUIRE(version >= 0, "halo window: start_at version ", version, "; expected 0 or more");
  const std::lock_guard lock(mutex_);
  version_ = version;
  for (auto* edges : {&in_edges_, &out_edges_}) {
    for (Edge& edge : *edges) {
      HaloTransport::store(edge.counter, version);
      edge.number = edge.stamp.number = version;
    }
  }
  released_.assign(in_edges_.size(), version);
  transport_.start();
}

HaloWindow::HaloWindow(const Communicator& comm, const Topology& topology, std::size_t length, Options options)
    : implementation_(std::make_unique<Implementation>(comm, topology, length, with_room(options))) {}
HaloWindow::~HaloWindow() = default;
void HaloWindow::put(std::int64_t version, HaloValues<const float> weights) {
  implementation_->put(version, weights);
}
HostVector<float> HaloWindow::next_slot() {
  return implementation_->next_slot();
}
void HaloWindow::put_ahead(std::size_t begin, HaloValues<const float> weights) {
  implementation_->put_ahead(begin, weights);
}
void HaloWindow::flush() {
  implementation_->flush();
}
void HaloWindow::move_on() {
  implementation_->move_on();
}
HaloValues<const float> HaloWindow::wait(int edge, std::int64_t version) {
  return implementation_->wait(edge, version);
}
void HaloWindow::release(int edge, std::int64_t version) {
  implementation_->release(edge, version);
}
std::int64_t HaloWindow::copy_latest(int edge, std::int64_t have, HaloValues<float> to) {
  return implementation_->copy_latest(edge, have, to);
}
void HaloWindow::report_late(int edge, std::int64_t version, std::int64_t latest, double seconds) const {
  implementation_->report_late(edge, version, latest, seconds);
}
EdgeLog& HaloWindow::edges() {
  return implementation_->edges();
}
void HaloWindow::start_at(std::int64_t version) {
  implementation_->start_at(version);
}
double HaloWindow::wait_seconds() const {
  return implementation_->wait_seconds();
}
std::int64_t HaloWindow::bytes_sent() const {
  return implementation_->bytes_sent();
}
int HaloWindow::stored_edges() const {
  return implementation_->stored_edges();
}

}  // namespace halograd
