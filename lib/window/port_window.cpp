#include "window/port_window.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "support/trace.hpp"
#include "window/fingerprint.hpp"

namespace halograd {
namespace {

constexpr std::int64_t compared_steps = 8;  // in which the graphs that ranks come with are compared

std::uint64_t fingerprint_of(const DynamicTopology& topology) {
  auto print = static_cast<std::uint64_t>(topology.most_in());
  for (std::int64_t step = 0; step < compared_steps; ++step) {
    print = fingerprint({print, fingerprint(topology.at(step)->in)});
  }
  return print;
}

}  // namespace

PortWindow::PortWindow(const Communicator& comm, DynamicTopology topology, std::size_t length, std::int64_t first_step,
                       TransportOptions options)
    : topology_(std::move(topology)),
      ranks_(topology_.ranks()),
      length_(length),
      port_bytes_(cache_line + whole_lines(length * sizeof(float))),
      slots_(options.slots),
      first_step_(first_step),
      options_(options),
      transport_(comm, checked_bytes(comm), options, options.carrier),
      put_step_(first_step),
      read_step_(first_step),
      clock_(comm),
      injector_(options.inject) {
  std::vector<int> all(static_cast<std::size_t>(ranks_));
  std::iota(all.begin(), all.end(), 0);
  edges_ = EdgeLog(all, length * sizeof(float));
  for (int rank = 0; rank < ranks_; ++rank) {
    readers_.push_back(&transport_.peer(rank));
    writers_.push_back(&transport_.peer(rank));
  }
}

std::size_t PortWindow::checked_bytes(const Communicator& comm) const {
  std::string message;
  if (ranks_ != comm.ranks()) {
    message = "port window: the topology has " + std::to_string(ranks_) + " ranks, the communicator " +
              std::to_string(comm.ranks());
  } else if (slots_ < 2) {
    message = "comm.slots is " + std::to_string(slots_) + "; expected at least 2";
  }
  comm.fail_together(message);
  require_same(comm,
               fingerprint({fingerprint_of(topology_), length_, static_cast<std::uint64_t>(first_step_),
                            static_cast<std::uint64_t>(slots_), options_.carrier == Carrier::send, options_.force_put}),
               "port window: ranks differ in topology, length, first step, slots, transport or force_put");
  return cleared(ranks_) + port_bytes_ * static_cast<std::size_t>(slots_ * topology_.most_in());
}

std::size_t PortWindow::port(std::int64_t version, std::size_t number) const {
  const auto first = static_cast<std::size_t>((version % slots_) * topology_.most_in());
  return cleared(ranks_) + port_bytes_ * (first + number);
}

void PortWindow::begin_put() {
  const std::int64_t version = put_step_ + 1;
  const auto graph = topology_.at(put_step_);
  const int rank = transport_.rank();
  sent_to_ = graph->out[static_cast<std::size_t>(rank)];
  ports_.clear();
  for (const int to : sent_to_) {
    const std::vector<int>& in = graph->in[static_cast<std::size_t>(to)];
    ports_.push_back(
        port(version, static_cast<std::size_t>(std::lower_bound(in.begin(), in.end(), rank) - in.begin())));
    if (version <= first_step_ + slots_) continue;  // the first ones go into ports that are free
    transport_.await(*readers_[static_cast<std::size_t>(to)], transport_.counter(cleared(to)), version, "a port for ");
  }
}

void PortWindow::put_ahead(std::size_t begin, HostVector<const float> values) {
  HALOGRAD_REQUIRE(flushed_ && begin == ahead_, "port window: values from number ", begin, " on ahead of step ",
                   put_step_, ", of which ", ahead_, " are sent", flushed_ ? "" : "; the step before is not flushed");
  const trace::Span span("put", "comm");
  if (ahead_ == 0) begin_put();
  for (std::size_t i = 0; i < sent_to_.size(); ++i) {
    transport_.write(*readers_[static_cast<std::size_t>(sent_to_[i])], ports_[i] + cache_line + begin * sizeof(float),
                     values);
  }
  ahead_ += values.extent(0);
}

void PortWindow::put(std::int64_t step, HostVector<const float> values, double number) {
  HALOGRAD_REQUIRE(step == put_step_ && flushed_, "port window: put of step ", step, " where ",
                   flushed_ ? "" : "the flush before ", "step ", put_step_, " comes next");
  HALOGRAD_REQUIRE(values.extent(0) == length_, "port window: ", values.extent(0), " values; expected ", length_);
  const trace::Span span("put", "comm");
  if (ahead_ == 0) begin_put();
  ++put_step_;
  flushed_ = false;
  const std::int64_t now = clock_.now();
  stamps_.assign(sent_to_.size(), {.sent = now, .number = std::bit_cast<std::int64_t>(number)});
  for (std::size_t i = 0; i < sent_to_.size(); ++i) {
    HaloTransport::Peer& reader = *readers_[static_cast<std::size_t>(sent_to_[i])];
    stamps_[i].arrives = injector_.arrives(now, halo_bytes());
    transport_.write(reader, ports_[i], stamps_[i]);
    transport_.write(reader, ports_[i] + cache_line + ahead_ * sizeof(float),
                     HostVector<const float>(values.data() + ahead_, length_ - ahead_));
    if (reader.shared != nullptr) transport_.set_counter(reader, latest(transport_.rank()), put_step_);
  }
  ahead_ = 0;
  bytes_sent_ += static_cast<std::int64_t>(sent_to_.size()) * halo_bytes();
}

void PortWindow::flush() {
  if (flushed_) return;
  flushed_ = true;
  transport_.wait_until(clock_, injector_.all_left());
  if (!transport_.uses_mpi()) return;
  std::vector<HaloTransport::Counter> versions;
  for (const int to : sent_to_) {
    HaloTransport::Peer& reader = *readers_[static_cast<std::size_t>(to)];
    if (reader.shared == nullptr) versions.push_back({reader, latest(transport_.rank()), put_step_});
  }
  transport_.announce(versions);
  for (const int to : cleared_for_) transport_.complete(*writers_[static_cast<std::size_t>(to)]);
  cleared_for_.clear();
}

const std::vector<PortWindow::Halo>& PortWindow::wait(std::int64_t step) {
  HALOGRAD_REQUIRE(step == read_step_, "port window: wait for step ", step, " where step ", read_step_, " comes next");
  const trace::Span span("wait", "comm");
  const std::int64_t version = step + 1;
  const auto graph = topology_.at(step);
  halos_.clear();
  for (const int from : graph->in[static_cast<std::size_t>(transport_.rank())]) {
    double waited =
        transport_.await(*readers_[static_cast<std::size_t>(from)], transport_.counter(latest(from)), version, "");
    const std::size_t place = port(version, halos_.size());
    const HaloStamp& stamp = transport_.stamp(place);
    waited += transport_.wait_until(clock_, stamp.arrives);
    edges_.waited(from, waited);
    edges_.taken(from, 1, 1e-9 * static_cast<double>(clock_.now() - stamp.sent));
    edges_.mixed(from, 0);
    halos_.push_back({from, graph->weight(from), transport_.values(place + cache_line, length_),
                      std::bit_cast<double>(stamp.number)});
  }
  return halos_;
}

void PortWindow::release(std::int64_t step) {
  HALOGRAD_REQUIRE(step == read_step_, "port window: release of step ", step, " where step ", read_step_,
                   " comes next");
  ++read_step_;
  // To those who write into these ports next. By MPI not waited for here, since they may be computing; it is complete
  // by the next flush().
  const int rank = transport_.rank();
  const std::int64_t next = step + slots_;
  const auto graph = topology_.at(next);
  for (const int from : graph->in[static_cast<std::size_t>(rank)]) {
    HaloTransport::Peer& writer = *writers_[static_cast<std::size_t>(from)];
    transport_.set_counter(writer, cleared(rank), next + 1);
    if (writer.in_flight) cleared_for_.push_back(from);
  }
}

std::vector<EdgeRecord> PortWindow::take_edges() {
  std::vector<EdgeRecord> records = edges_.take();
  records.erase(
      std::remove_if(records.begin(), records.end(), [](const EdgeRecord& record) { return record.halos == 0; }),
      records.end());
  return records;
}

}  // namespace halograd
