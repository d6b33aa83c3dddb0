#include "window/pair_window.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "support/trace.hpp"

namespace halograd {
namespace {

Graph between(const Graph& graph, const std::vector<bool>& side) {
  Graph kept(graph.size());
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    for (const int other : graph[rank]) {
      if (side[rank] != side[static_cast<std::size_t>(other)]) kept[rank].push_back(other);
    }
  }
  return kept;
}

std::size_t edges_of(const Graph& graph) {
  std::size_t edges = 0;
  for (const auto& neighbours : graph) edges += neighbours.size();
  return edges;
}

}  // namespace

Sides two_sides(const Graph& graph) {
  HALOGRAD_REQUIRE(is_undirected(graph), "averager ad_psgd: the topology is directed; ranks that exchange need edges ",
                   "both ways");
  const std::vector<int> distance = distances_from_0(graph);
  std::vector<bool> by_rank(graph.size()), by_distance(graph.size());
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    HALOGRAD_REQUIRE(distance[rank] >= 0, "averager ad_psgd: the topology is not connected");
    by_rank[rank] = rank % 2 == 1;
    by_distance[rank] = distance[rank] % 2 == 1;
  }
  Graph kept = between(graph, by_distance);  // connected: each rank is next to one that is nearer to rank 0
  std::vector<bool> odd = by_distance;
  const Graph other = between(graph, by_rank);
  const std::vector<int> reached = distances_from_0(other);
  if (std::find(reached.begin(), reached.end(), -1) == reached.end() && edges_of(other) >= edges_of(kept)) {
    kept = other;
    odd = by_rank;
  }
  const auto odd_ranks = static_cast<std::size_t>(std::count(odd.begin(), odd.end(), true));
  if (2 * odd_ranks < graph.size()) odd.flip();
  return {odd, kept};
}

PairWindow::PairWindow(const Communicator& comm, Sides sides, std::size_t length, const TransportOptions& options)
    : sides_(std::move(sides)),
      rank_(comm.rank()),
      length_(length),
      slot_bytes_(cache_line + whole_lines(length * sizeof(float))),
      transport_(comm, slot_at(rank_, slots_of(rank_)), options, options.free_carrier),
      clock_(comm),
      injector_(options.inject),
      edges_(sides_.partners[static_cast<std::size_t>(rank_)], length * sizeof(float)) {
  for (const int partner : sides_.partners[static_cast<std::size_t>(rank_)]) {
    peers_.push_back(&transport_.peer(partner));
    const std::vector<int>& there = sides_.partners[static_cast<std::size_t>(partner)];
    const auto place = std::lower_bound(there.begin(), there.end(), rank_) - there.begin();
    slot_there_.push_back(sides_.asks[static_cast<std::size_t>(partner)] ? 0 : static_cast<std::size_t>(place));
  }
  answered_.assign(peers_.size(), 0);
}

std::size_t PairWindow::slots_of(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return sides_.asks[at] ? std::min<std::size_t>(1, sides_.partners[at].size()) : sides_.partners[at].size();
}

std::size_t PairWindow::slot_at(int rank, std::size_t slot) const {
  return cache_line * slots_of(rank) + slot_bytes_ * slot;
}

void PairWindow::send(std::size_t partner, std::size_t slot_there, std::int64_t number, HostVector<const float> weights,
                      std::int64_t step) {
  HALOGRAD_REQUIRE(weights.extent(0) == length_, "pair window: ", weights.extent(0), " weights; expected ", length_);
  const trace::Span span("put", "comm");
  HaloTransport::Peer& peer = *peers_[partner];
  const std::size_t slot = slot_at(peer.rank, slot_there);
  const auto bytes = static_cast<std::int64_t>(length_ * sizeof(float));
  const std::int64_t now = clock_.now();
  transport_.begin(peer, {.values_at = slot + cache_line,
                          .values = weights,
                          .stamp_at = slot,
                          .stamp = {.sent = now, .arrives = injector_.arrives(now, bytes), .number = step},
                          .counter_at = cache_line * slot_there,
                          .counter = number});
  bytes_sent_ += bytes;
}

void PairWindow::ask(std::size_t partner, HostVector<const float> weights, std::int64_t step) {
  HALOGRAD_REQUIRE(!asking_ && sides_.asks[static_cast<std::size_t>(rank_)], "pair window: rank ", rank_,
                   " asks during an exchange, or on the side that answers");
  asking_ = true;
  of_ = partner;
  send(partner, slot_there_[partner], ++questions_, weights, step);
}

std::optional<HostVector<const float>> PairWindow::answer(std::int64_t step) {
  transport_.make_progress();
  if (!asking_ || !transport_.is_idle(*peers_[of_])) return {};
  if (HaloTransport::load(transport_.counter(0)) < questions_) return {};
  transport_.sync(*peers_[of_]);
  if (!has_arrived(0)) return {};
  asking_ = false;
  count(of_, 0, step);
  return transport_.values(slot_at(rank_, 0) + cache_line, length_);
}

std::optional<std::size_t> PairWindow::asked() {
  if (sides_.asks[static_cast<std::size_t>(rank_)]) return {};
  transport_.make_progress();
  const bool answering = !copy_.empty() && !transport_.is_idle(*peers_[of_]);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const std::size_t partner = (next_ + i) % peers_.size();  // in turn, so that none is served always first
    if (answering && peers_[partner]->shared == nullptr) continue;
    if (HaloTransport::load(transport_.counter(cache_line * partner)) == answered_[partner]) continue;
    transport_.sync(*peers_[partner]);
    if (!has_arrived(partner)) continue;
    next_ = partner + 1;
    return partner;
  }
  return {};
}

HostVector<const float> PairWindow::question(std::size_t partner) const {
  return transport_.values(slot_at(rank_, partner) + cache_line, length_);
}

void PairWindow::reply(std::size_t partner, HostVector<const float> weights, std::int64_t step) {
  answered_[partner] = HaloTransport::load(transport_.counter(cache_line * partner));
  count(partner, partner, step);
  if (peers_[partner]->shared == nullptr) {
    of_ = partner;
    copy_.assign(weights.data(), weights.data() + weights.extent(0));
    weights = HostVector<const float>(copy_.data(), copy_.size());
  }
  send(partner, 0, answered_[partner], weights, step);
}

void PairWindow::drain(const std::function<void()>& exchange) {
  transport_.finish_with_all([this] { return !asking_; }, exchange);
}

void PairWindow::count(std::size_t partner, std::size_t slot, std::int64_t step) {
  const int edge = static_cast<int>(partner);
  edges_.taken(edge, 1, 1e-9 * static_cast<double>(clock_.now() - stamp(slot).sent));
  edges_.mixed(edge, std::max<std::int64_t>(0, step - stamp(slot).number));
}

}  // namespace halograd
