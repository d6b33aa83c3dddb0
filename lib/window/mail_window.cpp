#include "window/mail_window.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "support/trace.hpp"
#include "window/fingerprint.hpp"

namespace halograd {
namespace {

const std::vector<int>& of_rank(const Graph& graph, int rank) {
  return graph[static_cast<std::size_t>(rank)];
}

std::size_t position(const std::vector<int>& ranks, int rank) {
  return static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// The same graph, once all ranks are known to have come with the same arguments.
const StepGraph& checked(const Communicator& comm, const StepGraph& graph, std::size_t length,
                         const TransportOptions& options) {
  const bool fits = graph.in.size() == static_cast<std::size_t>(comm.ranks());
  comm.fail_together(fits ? ""
                          : "mail window: the graph has " + std::to_string(graph.in.size()) +
                                " ranks, the communicator " + std::to_string(comm.ranks()));
  require_same(comm,
               fingerprint({fingerprint(graph.in), length, options.force_put, options.free_carrier == Carrier::send}),
               "mail window: ranks differ in graph, length, force_put or transport");
  return graph;
}

}  // namespace

MailWindow::MailWindow(const Communicator& comm, const StepGraph& graph, std::size_t length,
                       const TransportOptions& options)
    : length_(length),
      mailbox_bytes_(cache_line + whole_lines(length * sizeof(float))),
      transport_(comm,
                 mailbox_at(checked(comm, graph, length, options), comm.rank(), of_rank(graph.in, comm.rank()).size()),
                 options, options.free_carrier),
      clock_(comm),
      injector_(options.inject),
      edges_(of_rank(graph.in, comm.rank()), length * sizeof(float)) {
  const int rank = comm.rank();
  const std::vector<int>& from = of_rank(graph.in, rank);
  const std::vector<int> to = of_rank(graph.out, rank);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t lines_there = of_rank(graph.in, from[i]).size();
    const std::size_t number_there = position(of_rank(graph.out, from[i]), rank);
    in_.push_back({{&transport_.peer(from[i]), transport_.counter(cache_line * i),
                    cache_line * (lines_there + number_there), mailbox_at(graph, rank, i)}});
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t number_there = position(of_rank(graph.in, to[i]), rank);
    OutEdge edge{{&transport_.peer(to[i]), transport_.counter(cache_line * (from.size() + i)),
                  cache_line * number_there, mailbox_at(graph, to[i], number_there)}};
    if (edge.peer->shared == nullptr) edge.copy.resize(length);
    out_.push_back(std::move(edge));
  }
}

std::size_t MailWindow::mailbox_at(const StepGraph& graph, int rank, std::size_t number) const {
  const std::size_t counters = of_rank(graph.in, rank).size() + of_rank(graph.out, rank).size();
  return cache_line * counters + mailbox_bytes_ * number;
}

bool MailWindow::is_free(std::size_t out_edge) {
  const OutEdge& edge = out_.at(out_edge);
  transport_.make_progress();
  if (!transport_.is_idle(*edge.peer) || HaloTransport::load(edge.counter) < edge.messages) return false;
  transport_.sync(*edge.peer);
  return true;
}

void MailWindow::send(std::size_t out_edge, HostVector<const float> values, double number, std::int64_t label) {
  HALOGRAD_REQUIRE(is_free(out_edge), "mail window: a message over out-edge ", out_edge, ", where one is under way");
  HALOGRAD_REQUIRE(values.extent(0) == length_, "mail window: ", values.extent(0), " values; expected ", length_);
  const trace::Span span("put", "comm");
  OutEdge& edge = out_[out_edge];
  if (edge.peer->shared == nullptr) {
    std::copy(values.data(), values.data() + length_, edge.copy.begin());
    values = HostVector<const float>(edge.copy.data(), length_);
  }
  const auto bytes = static_cast<std::int64_t>(length_ * sizeof(float));
  const std::int64_t now = clock_.now();
  transport_.begin(*edge.peer, {.values_at = edge.mailbox + cache_line,
                                .values = values,
                                .stamp_at = edge.mailbox,
                                .stamp = {.sent = now,
                                          .arrives = injector_.arrives(now, bytes),
                                          .number = std::bit_cast<std::int64_t>(number),
                                          .label = label},
                                .counter_at = edge.counter_there,
                                .counter = ++edge.messages});
  bytes_sent_ += bytes;
}

std::optional<MailWindow::Message> MailWindow::receive(std::size_t in_edge) {
  InEdge& edge = in_.at(in_edge);
  transport_.make_progress();
  if (edge.open || HaloTransport::load(edge.counter) == edge.messages) return {};
  transport_.sync(*edge.peer);
  const HaloStamp& stamp = transport_.stamp(edge.mailbox);
  const std::int64_t now = clock_.now();
  if (now < stamp.arrives) return {};
  edge.open = true;
  edges_.taken(static_cast<int>(in_edge), 1, 1e-9 * static_cast<double>(now - stamp.sent));
  edges_.mixed(static_cast<int>(in_edge), 0);
  return Message{transport_.values(edge.mailbox + cache_line, length_), std::bit_cast<double>(stamp.number),
                 stamp.label};
}

void MailWindow::release(std::size_t in_edge) {
  InEdge& edge = in_.at(in_edge);
  HALOGRAD_REQUIRE(edge.open, "mail window: release of in-edge ", in_edge, ", over which nothing was received");
  edge.open = false;
  transport_.set_counter(*edge.peer, edge.counter_there, ++edge.messages);
  transport_.complete(*edge.peer);  // the sender waits for it, and this rank perhaps for nothing that would complete it
}

void MailWindow::drain(const std::function<void()>& take) {
  const auto all_are_free = [this] {
    for (std::size_t edge = 0; edge < out_.size(); ++edge) {
      if (!is_free(edge)) return false;
    }
    return true;
  };
  transport_.finish_with_all(all_are_free, take);
}

}  // namespace halograd
