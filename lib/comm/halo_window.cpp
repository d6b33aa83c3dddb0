#include "comm/halo_window.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "comm/halo_edge.hpp"
#include "comm/halo_layout.hpp"
#include "comm/injector.hpp"
#include "comm/rank_clock.hpp"
#include "comm/shared_segment.hpp"
#include "kernels/error.hpp"
#include "support/trace.hpp"
#include "support/wait.hpp"

namespace halograd {

class HaloWindow::Implementation {
 public:
  Implementation(MPI_Comm comm, const Topology& topology, std::size_t length, Options options);

  void put(std::int64_t version, HostVector<const float> weights);
  void flush();
  HostVector<const float> wait(int edge, std::int64_t version);
  void release(int edge, std::int64_t version);
  std::int64_t copy_latest(int edge, std::int64_t have, HostVector<float> to);
  void report_late(const HaloEdge& edge, std::int64_t version, const char* purpose, double seconds) const;
  void start_at(std::int64_t version);

  [[nodiscard]] const HaloEdge& in_edge(int edge) const { return in_edges_.at(static_cast<std::size_t>(edge)); }
  [[nodiscard]] EdgeLog& edges() { return edges_; }
  [[nodiscard]] double wait_seconds() const { return wait_seconds_; }
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] int stored_edges() const { return stored_edges_; }

 private:
  HaloEdge make_edge(int neighbour, const std::vector<Neighbour>& edges_there, HaloLayout layout_there,
                     std::size_t counter_here, bool force_put);
  void write(const HaloEdge& edge, std::int64_t version, const HostVector<const float>& weights);
  /// Sets a counter of the neighbour. By MPI this is complete only after complete().
  void set_counter(HaloEdge& edge, std::size_t offset_there, std::int64_t version);
  void complete(HaloEdge& edge);
  /// Waits until the edge's counter on this rank has reached `version`. Returns the seconds that it waited.
  double await(const HaloEdge& edge, std::int64_t version, const char* purpose);
  /// When the put of this version began.
  [[nodiscard]] std::int64_t sent_at(int edge, std::int64_t version) const {
    return *counter_at(segment_.own(), layout_.sent(static_cast<std::size_t>(edge), version));
  }
  /// The newest version that has not only come but also been under way for the injected latency, of those whose slots
  /// are still whole; `have`: none that is newer than that.
  [[nodiscard]] std::int64_t arrived(int edge, std::int64_t latest, std::int64_t have) const;
  void make_progress();
  /// Orders this rank's loads after the neighbour's stores or puts that the counter announced.
  void sync(const HaloEdge& edge);

  HaloLayout layout_;
  SharedSegment segment_;
  std::size_t length_, put_floats_;
  int rank_ = 0, stored_edges_ = 0;
  std::int64_t slots_;
  bool exact_;
  bool needs_progress_ = false;  // some neighbour's operations go through this rank's MPI
  std::vector<HaloEdge> in_edges_, out_edges_;
  std::vector<std::int64_t> released_;  // per in-edge
  std::vector<MPI_Request> puts_;       // since the last flush
  std::int64_t version_ = 0;            // last put
  bool flushed_ = true;
  double wait_seconds_ = 0;
  std::int64_t bytes_sent_ = 0;
  RankClock clock_;
  Injector injector_;
  EdgeLog edges_;
  std::int64_t sent_ = 0;  // when the last put began
  double report_seconds_;
};

HaloWindow::Implementation::Implementation(MPI_Comm comm, const Topology& topology, std::size_t length, Options options)
    : layout_(checked_halo_layout(comm, topology, length, options)),
      segment_(comm, layout_.bytes(), options.force_put),
      length_(length),
      put_floats_(std::clamp<std::size_t>(options.put_floats, 1, std::numeric_limits<int>::max())),
      slots_(options.slots),
      exact_(options.exact),
      clock_(comm),
      injector_(options.inject),
      edges_(topology.in_neighbours(segment_.rank()), length * sizeof(float)),
      report_seconds_(options.report_seconds) {
  MPI_Comm_rank(comm, &rank_);
  for (const Neighbour& neighbour : topology.in_neighbours(rank_)) {
    in_edges_.push_back(make_edge(neighbour.rank, topology.out_neighbours(neighbour.rank),
                                  {topology, neighbour.rank, length, options.slots}, layout_.latest(in_edges_.size()),
                                  options.force_put));
  }
  for (const Neighbour& neighbour : topology.out_neighbours(rank_)) {
    out_edges_.push_back(make_edge(neighbour.rank, topology.in_neighbours(neighbour.rank),
                                   {topology, neighbour.rank, length, options.slots},
                                   layout_.acknowledged(out_edges_.size()), options.force_put));
    if (out_edges_.back().shared != nullptr) ++stored_edges_;
  }
  released_.assign(in_edges_.size(), 0);
}

HaloEdge HaloWindow::Implementation::make_edge(int neighbour, const std::vector<Neighbour>& edges_there,
                                               HaloLayout layout_there, std::size_t counter_here, bool force_put) {
  std::byte* shared = force_put ? nullptr : segment_.of(neighbour);
  if (shared == nullptr) needs_progress_ = true;
  return {neighbour, position(edges_there, rank_), layout_there, shared, counter_at(segment_.own(), counter_here)};
}

void HaloWindow::Implementation::put(std::int64_t version, HostVector<const float> weights) {
  HALOGRAD_REQUIRE(version == version_ + 1 && flushed_, "halo window: put of version ", version, " after ",
                   flushed_ ? "" : "unflushed ", "version ", version_);
  HALOGRAD_REQUIRE(weights.extent(0) == length_, "halo window: ", weights.extent(0), " weights; expected ", length_);
  const trace::Span span("put", "comm");
  version_ = version;
  flushed_ = false;
  sent_ = clock_.now();
  if (!exact_) std::atomic_thread_fence(std::memory_order_seq_cst);  // the last counter's store stays before this data
  for (HaloEdge& edge : out_edges_) {
    if (exact_) wait_seconds_ += await(edge, version - slots_, "acknowledgement of ");
    if (injector_.drops(rank_, edge.rank, version)) continue;
    write(edge, version, weights);
    if (edge.shared != nullptr) set_counter(edge, edge.layout_there.latest(edge.number_there), version);
  }
  bytes_sent_ += static_cast<std::int64_t>(out_edges_.size() * length_ * sizeof(float));
}

void HaloWindow::Implementation::write(const HaloEdge& edge, std::int64_t version,
                                       const HostVector<const float>& weights) {
  const std::size_t slot = edge.layout_there.slot(edge.number_there, version);
  if (edge.shared != nullptr) {
    const HostVector<float> halo(reinterpret_cast<float*>(edge.shared + slot), length_);
    Kokkos::deep_copy(Kokkos::DefaultHostExecutionSpace(), halo, weights);
    Kokkos::DefaultHostExecutionSpace().fence();
    *counter_at(edge.shared, edge.layout_there.sent(edge.number_there, version)) = sent_;
    return;
  }
  for (std::size_t begin = 0; begin < length_; begin += put_floats_) {
    const int count = static_cast<int>(std::min(put_floats_, length_ - begin));
    const auto place = static_cast<MPI_Aint>(slot + begin * sizeof(float));
    MPI_Rput(weights.data() + begin, count, MPI_FLOAT, edge.rank, place, count, MPI_FLOAT, segment_.window(),
             &puts_.emplace_back());
  }
  const auto place = static_cast<MPI_Aint>(edge.layout_there.sent(edge.number_there, version));
  MPI_Rput(&sent_, 1, MPI_INT64_T, edge.rank, place, 1, MPI_INT64_T, segment_.window(), &puts_.emplace_back());
}

void HaloWindow::Implementation::set_counter(HaloEdge& edge, std::size_t offset_there, std::int64_t version) {
  if (edge.shared != nullptr) {
    segment_.sync_node();  // what was read or written before the counter stays before it
    store_counter(counter_at(edge.shared, offset_there), version);
    return;
  }
  complete(edge);  // before its origin is written to again
  edge.message = version;
  MPI_Accumulate(&edge.message, 1, MPI_INT64_T, edge.rank, static_cast<MPI_Aint>(offset_there), 1, MPI_INT64_T,
                 MPI_REPLACE, segment_.window());
  edge.in_flight = true;
}

void HaloWindow::Implementation::complete(HaloEdge& edge) {
  if (!edge.in_flight) return;
  MPI_Win_flush(edge.rank, segment_.window());
  edge.in_flight = false;
}

void HaloWindow::Implementation::flush() {
  if (flushed_) return;
  flushed_ = true;
  if (!needs_progress_) return;
  const trace::Span span("flush", "comm");
  // MPI_Win_flush spins until it is done: where ranks share cores, waiting for the requests first, which gives up the
  // core, leaves it little to wait for.
  const PolitePause time;
  for (MPI_Request& request : puts_) wait_politely(request);
  puts_.clear();
  // The version may not overtake the halo: MPI orders a put and an accumulate only through the flush between them.
  for (const HaloEdge& edge : out_edges_) {
    if (edge.shared == nullptr) MPI_Win_flush(edge.rank, segment_.window());
  }
  for (HaloEdge& edge : out_edges_) {
    if (edge.shared != nullptr || injector_.drops(rank_, edge.rank, version_)) continue;
    set_counter(edge, edge.layout_there.latest(edge.number_there), version_);
  }
  for (HaloEdge& edge : out_edges_) complete(edge);
  for (HaloEdge& edge : in_edges_) complete(edge);
  wait_seconds_ += time.seconds();
}

HostVector<const float> HaloWindow::Implementation::wait(int edge, std::int64_t version) {
  HALOGRAD_REQUIRE(exact_ && version == released_.at(edge) + 1, "halo window: wait for version ", version, " of edge ",
                   edge, " after the release of version ", released_[edge]);
  const trace::Span span("wait", "comm");
  double waited = await(in_edges_[edge], version, "");
  const std::int64_t sent = sent_at(edge, version);
  if (injector_.latency_nanoseconds() > 0) {
    PolitePause pause;
    while (clock_.now() < sent + injector_.latency_nanoseconds()) {
      make_progress();
      pause();
    }
    waited += pause.seconds();
  }
  wait_seconds_ += waited;
  edges_.waited(edge, waited);
  edges_.taken(edge, 1, 1e-9 * static_cast<double>(clock_.now() - sent));
  edges_.mixed(edge, 0);
  const std::size_t slot = layout_.slot(static_cast<std::size_t>(edge), version);
  return HostVector<const float>(reinterpret_cast<const float*>(segment_.own() + slot), length_);
}

void HaloWindow::Implementation::release(int edge, std::int64_t version) {
  HALOGRAD_REQUIRE(version == released_.at(edge) + 1, "halo window: release of version ", version, " of edge ", edge,
                   " after the release of version ", released_[edge]);
  released_[edge] = version;
  HaloEdge& in_edge = in_edges_[edge];
  // By MPI the acknowledgement is not waited for here: its target may be computing. It is complete by the next flush().
  set_counter(in_edge, in_edge.layout_there.acknowledged(in_edge.number_there), version);
}

double HaloWindow::Implementation::await(const HaloEdge& edge, std::int64_t version, const char* purpose) {
  double waited = 0;
  if (load_counter(edge.counter) < version) {
    PolitePause pause;
    bool reported = false;
    do {
      make_progress();
      pause();
      waited = pause.seconds();
      if (!reported && waited > report_seconds_) {
        reported = true;
        report_late(edge, version, purpose, waited);
      }
    } while (load_counter(edge.counter) < version);
  }
  sync(edge);
  return waited;
}

void HaloWindow::Implementation::report_late(const HaloEdge& edge, std::int64_t version, const char* purpose,
                                             double seconds) const {
  std::fprintf(stderr, "rank %d waits for rank %d: %sversion %lld, latest %lld, %.3g s\n", rank_, edge.rank, purpose,
               static_cast<long long>(version), static_cast<long long>(load_counter(edge.counter)), seconds);
}

void HaloWindow::Implementation::make_progress() {
  if (!needs_progress_) return;
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, segment_.comm(), &found, MPI_STATUS_IGNORE);
}

void HaloWindow::Implementation::sync(const HaloEdge& edge) {
  if (edge.shared != nullptr) {
    segment_.sync_node();
  } else {
    segment_.sync();
  }
}

// While version l is the latest, l + 1 may be on its way into its slot, which was that of l + 1 - slots. So what was
// copied of version v is whole if, after the copy, the latest is still below v + slots - 1.
std::int64_t HaloWindow::Implementation::copy_latest(int edge, std::int64_t have, HostVector<float> to) {
  HALOGRAD_REQUIRE(!exact_, "halo window: copy_latest from a window of exact versions");
  const HaloEdge& in_edge = in_edges_.at(static_cast<std::size_t>(edge));
  make_progress();
  for (;;) {  // again only after the writer has published another one
    const std::int64_t version = arrived(edge, load_counter(in_edge.counter), have);
    if (version <= have) return have;
    sync(in_edge);
    const std::size_t slot = layout_.slot(static_cast<std::size_t>(edge), version);
    Kokkos::deep_copy(Kokkos::DefaultHostExecutionSpace(), to,
                      HostVector<const float>(reinterpret_cast<const float*>(segment_.own() + slot), length_));
    Kokkos::DefaultHostExecutionSpace().fence();
    const std::int64_t sent = sent_at(edge, version);
    std::atomic_thread_fence(std::memory_order_acquire);  // the copy's loads stay before the next one of the counter
    sync(in_edge);
    if (load_counter(in_edge.counter) >= version + slots_ - 1) continue;
    edges_.taken(edge, version - have, 1e-9 * static_cast<double>(clock_.now() - sent));
    return version;
  }
}

std::int64_t HaloWindow::Implementation::arrived(int edge, std::int64_t latest, std::int64_t have) const {
  if (injector_.latency_nanoseconds() == 0) return latest;
  const std::int64_t since = clock_.now() - injector_.latency_nanoseconds();
  for (std::int64_t version = latest; version > std::max(have, latest - slots_ + 1); --version) {
    if (sent_at(edge, version) <= since) return version;
  }
  return have;
}

void HaloWindow::Implementation::start_at(std::int64_t version) {
  HALOGRAD_REQUIRE(version_ == 0 && flushed_, "halo window: start_at after the first put");
  HALOGRAD_REQUIRE(version >= 0, "halo window: start_at version ", version, "; expected 0 or more");
  version_ = version;
  for (const HaloEdge& edge : in_edges_) store_counter(edge.counter, version);
  for (const HaloEdge& edge : out_edges_) store_counter(edge.counter, version);
  released_.assign(in_edges_.size(), version);
  segment_.sync();
  segment_.sync_node();
  barrier(segment_.comm());  // no neighbour's first put may come before
}

HaloWindow::HaloWindow(MPI_Comm comm, const Topology& topology, std::size_t length, Options options)
    : implementation_(std::make_unique<Implementation>(comm, topology, length, options)) {}
HaloWindow::~HaloWindow() = default;
void HaloWindow::put(std::int64_t version, HostVector<const float> weights) {
  implementation_->put(version, weights);
}
void HaloWindow::flush() {
  implementation_->flush();
}
HostVector<const float> HaloWindow::wait(int edge, std::int64_t version) {
  return implementation_->wait(edge, version);
}
void HaloWindow::release(int edge, std::int64_t version) {
  implementation_->release(edge, version);
}
std::int64_t HaloWindow::copy_latest(int edge, std::int64_t have, HostVector<float> to) {
  return implementation_->copy_latest(edge, have, to);
}
void HaloWindow::report_late(int edge, std::int64_t version, double seconds) const {
  implementation_->report_late(implementation_->in_edge(edge), version, "", seconds);
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
