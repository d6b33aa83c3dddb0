#include "window/halo_window.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/rank_clock.hpp"
#include "support/trace.hpp"
#include "window/halo_layout.hpp"
#include "window/halo_transport.hpp"
#include "window/injector.hpp"

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

/// In the memory that both lie in; fenced.
void copy(HaloValues<const float> from, HaloValues<float> to) {
  const auto copy_by = [](const auto& exec, const auto& there, const auto& here) {
    Kokkos::deep_copy(exec, there, here);
    exec.fence();
  };
  if (from.memory() == HaloMemory::device) {
    copy_by(ExecutionSpace(), to.device(), from.device());
  } else {
    copy_by(Kokkos::DefaultHostExecutionSpace(), to.host(), from.host());
  }
}

}  // namespace

class HaloWindow::Implementation {
 public:
  Implementation(const Communicator& comm, const Topology& topology, std::size_t length, Options options);

  void put(std::int64_t version, HaloValues<const float> weights);
  HostVector<float> next_slot();
  void flush();
  HaloValues<const float> wait(int edge, std::int64_t version);
  void release(int edge, std::int64_t version);
  std::int64_t copy_latest(int edge, std::int64_t have, HaloValues<float> to);
  void report_late(int edge, std::int64_t version, double seconds) const;
  void start_at(std::int64_t version);

  [[nodiscard]] EdgeLog& edges() { return edges_; }
  [[nodiscard]] double wait_seconds() const { return transport_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] int stored_edges() const { return memory_ == HaloMemory::host ? near_ : 0; }

 private:
  /// One edge as this rank sees it.
  struct Edge {
    HaloTransport::Peer peer;  // the neighbour
    std::size_t number_there;  // of this edge among the neighbour's out-edges (of its in-edges, for an out-edge)
    HaloLayout layout_there;
    std::int64_t* counter;  // on this rank: what the neighbour has published (in-edge) or acknowledged (out-edge)
  };

  Edge make_edge(int neighbour, const std::vector<Neighbour>& edges_there, HaloLayout layout_there,
                 std::size_t counter_here);
  /// Whether an out-neighbour reads the weights where put() stores them; the others have them by MPI_Put.
  [[nodiscard]] bool is_stored(const Edge& edge) const {
    return memory_ == HaloMemory::host && edge.peer.shared != nullptr;
  }
  /// Before a version is written where another one was.
  void free_slot(std::int64_t version);
  /// Where a version of an in-neighbour's weights is read.
  [[nodiscard]] HaloValues<const float> halo(std::size_t edge, std::int64_t version) const;

  /// When the put of a version that an in-neighbour has published began.
  [[nodiscard]] std::int64_t sent_at(std::size_t edge, std::int64_t version) const;
  /// The newest version that is not lost and has been under way for the injected latency, of those whose slots are
  /// still whole; `have`: none that is newer than that.
  [[nodiscard]] std::int64_t arrived(std::size_t edge, std::int64_t latest, std::int64_t have) const;

  HaloMemory memory_;
  std::vector<int> nodes_;
  HaloLayout layout_;
  HaloTransport transport_;
  std::size_t length_;
  int rank_, near_ = 0;  // out-neighbours that share memory
  std::int64_t slots_;
  bool exact_;
  std::vector<Edge> in_edges_, out_edges_;
  std::vector<std::int64_t> released_;  // per in-edge
  std::int64_t version_ = 0;            // last put
  std::int64_t written_ = 0;            // the last version that next_slot() gave away
  bool flushed_ = true;
  std::int64_t bytes_sent_ = 0;
  RankClock clock_;
  Injector injector_;
  bool injects_;  // latency or losses
  EdgeLog edges_;
  std::int64_t sent_ = 0;  // when the last put began
};

HaloWindow::Implementation::Implementation(const Communicator& comm, const Topology& topology, std::size_t length,
                                           Options options)
    : memory_(options.memory),
      nodes_(checked_nodes(comm, topology, length, options)),
      layout_(topology, nodes_, comm.rank(), length, options.slots, memory_),
      transport_(comm, layout_.bytes(), options,
                 memory_ == HaloMemory::device ? std::optional(layout_.device_bytes()) : std::nullopt),
      length_(length),
      rank_(transport_.rank()),
      slots_(options.slots),
      exact_(options.exact),
      clock_(comm),
      injector_(options.inject),
      injects_(options.inject.latency_us > 0 || options.inject.drop_fraction > 0),
      edges_(ranks_of(topology.in_neighbours(rank_)), length * sizeof(float)) {
  const auto layout_of = [&](int rank) { return HaloLayout(topology, nodes_, rank, length, options.slots, memory_); };
  for (const Neighbour& neighbour : topology.in_neighbours(rank_)) {
    in_edges_.push_back(make_edge(neighbour.rank, topology.out_neighbours(neighbour.rank), layout_of(neighbour.rank),
                                  layout_.latest(in_edges_.size())));
  }
  for (const Neighbour& neighbour : topology.out_neighbours(rank_)) {
    out_edges_.push_back(make_edge(neighbour.rank, topology.in_neighbours(neighbour.rank), layout_of(neighbour.rank),
                                   layout_.acknowledged(out_edges_.size())));
    if (out_edges_.back().peer.shared != nullptr) ++near_;
  }
  released_.assign(in_edges_.size(), 0);
}

HaloWindow::Implementation::Edge HaloWindow::Implementation::make_edge(int neighbour,
                                                                       const std::vector<Neighbour>& edges_there,
                                                                       HaloLayout layout_there,
                                                                       std::size_t counter_here) {
  return {transport_.peer(neighbour), position(edges_there, rank_), std::move(layout_there),
          transport_.counter(counter_here)};
}

void HaloWindow::Implementation::put(std::int64_t version, HaloValues<const float> weights) {
  HALOGRAD_REQUIRE(version == version_ + 1 && flushed_, "halo window: put of version ", version, " after ",
                   flushed_ ? "" : "unflushed ", "version ", version_);
  HALOGRAD_REQUIRE(weights.length() == length_, "halo window: ", weights.length(), " weights; expected ", length_);
  HALOGRAD_REQUIRE(weights.memory() == memory_, "halo window: weights are not in the memory of its halos");
  const trace::Span span("put", "comm");
  version_ = version;
  flushed_ = false;
  sent_ = clock_.now();
  free_slot(version);
  if (stored_edges() > 0 && written_ != version) {
    copy(weights, transport_.own_values(layout_.own_slot(version), length_));
  }
  if (near_ > 0) *transport_.counter(layout_.sent(layout_.own_slot(version))) = sent_;
  for (Edge& edge : out_edges_) {
    if (is_stored(edge)) {
      transport_.set_counter(edge.peer, edge.layout_there.latest(edge.number_there), version);
      continue;
    }
    const bool on_device = memory_ == HaloMemory::device, near = edge.peer.shared != nullptr;
    if (on_device) {
      transport_.write(edge.peer, edge.layout_there.device_slot(edge.number_there, version), weights);
    }
    if (near) continue;  // reads the time above
    const std::size_t slot = edge.layout_there.slot(edge.number_there, version);
    if (!on_device) transport_.write(edge.peer, slot, weights);
    transport_.write(edge.peer, edge.layout_there.sent(slot), std::span<const std::int64_t>(&sent_, 1));
  }
  bytes_sent_ += static_cast<std::int64_t>(out_edges_.size() * length_ * sizeof(float));
}

HostVector<float> HaloWindow::Implementation::next_slot() {
  if (stored_edges() == 0) return {};
  written_ = version_ + 1;
  free_slot(written_);
  return transport_.own_values(layout_.own_slot(written_), length_);
}

void HaloWindow::Implementation::free_slot(std::int64_t version) {
  if (!exact_) return std::atomic_thread_fence(std::memory_order_seq_cst);  // the last counter's store stays before it
  for (const Edge& edge : out_edges_) {
    transport_.await(edge.peer, edge.counter, version - slots_, "acknowledgement of ");
  }
}

void HaloWindow::Implementation::flush() {
  if (flushed_) return;
  flushed_ = true;
  if (!transport_.uses_mpi()) return;
  transport_.wait_for_puts();
  // The version may not overtake the halo: MPI orders a put and an accumulate only through the flush between them.
  for (const Edge& edge : out_edges_) transport_.flush(edge.peer);
  for (Edge& edge : out_edges_) {
    if (!is_stored(edge)) {
      transport_.set_counter(edge.peer, edge.layout_there.latest(edge.number_there), version_);
    }
  }
  for (Edge& edge : out_edges_) transport_.complete(edge.peer);
  for (Edge& edge : in_edges_) transport_.complete(edge.peer);
}

HaloValues<const float> HaloWindow::Implementation::halo(std::size_t edge, std::int64_t version) const {
  const Edge& from = in_edges_[edge];
  if (memory_ == HaloMemory::device) {
    return HaloValues<const float>::on_device(transport_.device_values(layout_.device_slot(edge, version), length_));
  }
  if (from.peer.shared != nullptr) {
    return HaloTransport::values(from.peer, from.layout_there.own_slot(version), length_);
  }
  return transport_.values(layout_.slot(edge, version), length_);
}

HaloValues<const float> HaloWindow::Implementation::wait(int edge, std::int64_t version) {
  HALOGRAD_REQUIRE(exact_ && version == released_.at(edge) + 1, "halo window: wait for version ", version, " of edge ",
                   edge, " after the release of version ", released_[edge]);
  const trace::Span span("wait", "comm");
  const auto number = static_cast<std::size_t>(edge);
  double waited = transport_.await(in_edges_[number].peer, in_edges_[number].counter, version, "");
  const std::int64_t sent = sent_at(number, version);
  waited += transport_.wait_until(clock_, sent + injector_.latency_nanoseconds());
  edges_.waited(edge, waited);
  edges_.taken(edge, 1, 1e-9 * static_cast<double>(clock_.now() - sent));
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

// While version l is the latest, l + 1 may be on its way into its slot, which was that of l + 1 - slots. So what was
// copied of version v is whole if, after the copy, the latest is still below v + slots - 1.
std::int64_t HaloWindow::Implementation::copy_latest(int edge, std::int64_t have, HaloValues<float> to) {
  HALOGRAD_REQUIRE(!exact_, "halo window: copy_latest from a window of exact versions");
  const Edge& in_edge = in_edges_.at(static_cast<std::size_t>(edge));
  transport_.make_progress();
  for (;;) {  // again only after the writer has published another one
    const std::int64_t latest = HaloTransport::load(in_edge.counter);
    if (latest <= have) return have;
    transport_.sync(in_edge.peer);
    const std::int64_t version = arrived(static_cast<std::size_t>(edge), latest, have);
    if (version <= have) return have;
    copy(halo(static_cast<std::size_t>(edge), version), to);
    const std::int64_t sent = sent_at(static_cast<std::size_t>(edge), version);
    std::atomic_thread_fence(std::memory_order_acquire);  // the copy's loads stay before the next one of the counter
    transport_.sync(in_edge.peer);
    if (HaloTransport::load(in_edge.counter) >= version + slots_ - 1) continue;
    edges_.taken(edge, version - have, 1e-9 * static_cast<double>(clock_.now() - sent));
    return version;
  }
}

std::int64_t HaloWindow::Implementation::sent_at(std::size_t edge, std::int64_t version) const {
  const Edge& from = in_edges_[edge];
  if (from.peer.shared == nullptr) return *transport_.counter(layout_.sent(layout_.slot(edge, version)));
  return *HaloTransport::counter(from.peer, from.layout_there.sent(from.layout_there.own_slot(version)));
}

std::int64_t HaloWindow::Implementation::arrived(std::size_t edge, std::int64_t latest, std::int64_t have) const {
  if (!injects_) return latest;
  const std::int64_t since = clock_.now() - injector_.latency_nanoseconds();
  for (std::int64_t version = latest; version > std::max(have, latest - slots_ + 1); --version) {
    if (!injector_.drops(in_edges_[edge].peer.rank, rank_, version) && sent_at(edge, version) <= since) return version;
  }
  return have;
}

void HaloWindow::Implementation::report_late(int edge, std::int64_t version, double seconds) const {
  const Edge& in_edge = in_edges_.at(static_cast<std::size_t>(edge));
  transport_.report_late(in_edge.peer, in_edge.counter, version, "", seconds);
}

void HaloWindow::Implementation::start_at(std::int64_t version) {
  HALOGRAD_REQUIRE(version_ == 0 && flushed_, "halo window: start_at after the first put");
  HALOGRAD_REQUIRE(version >= 0, "halo window: start_at version ", version, "; expected 0 or more");
  version_ = version;
  for (const Edge& edge : in_edges_) HaloTransport::store(edge.counter, version);
  for (const Edge& edge : out_edges_) HaloTransport::store(edge.counter, version);
  released_.assign(in_edges_.size(), version);
  transport_.start();
}

HaloWindow::HaloWindow(const Communicator& comm, const Topology& topology, std::size_t length, Options options)
    : implementation_(std::make_unique<Implementation>(comm, topology, length, options)) {}
HaloWindow::~HaloWindow() = default;
void HaloWindow::put(std::int64_t version, HaloValues<const float> weights) {
  implementation_->put(version, weights);
}
HostVector<float> HaloWindow::next_slot() {
  return implementation_->next_slot();
}
void HaloWindow::flush() {
  implementation_->flush();
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
void HaloWindow::report_late(int edge, std::int64_t version, double seconds) const {
  implementation_->report_late(edge, version, seconds);
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
