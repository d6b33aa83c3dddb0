#include "window/group_window.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "support/trace.hpp"
#include "window/fingerprint.hpp"

namespace halograd {
namespace {

constexpr std::size_t floats_of(std::size_t doubles) {
  return doubles * sizeof(double) / sizeof(float);
}

}  // namespace

GroupWindow::GroupWindow(const Communicator& group, const TransportOptions& options)
    : GroupWindow(group.rank(), group.ranks()) {
  group_.emplace(group);
  options_ = options;
}

GroupWindow::GroupWindow(int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      lengths_(static_cast<std::size_t>(ranks), std::vector<std::size_t>(static_cast<std::size_t>(ranks))),
      out_(static_cast<std::size_t>(ranks)) {}

void GroupWindow::together(const std::function<void()>& body) const {
  if (group_) return group_->together(body);
  body();
}

void GroupWindow::expect_message(int from, int to, std::size_t floats) {
  lengths_[from][to] = std::max(lengths_[from][to], floats);
}

void GroupWindow::expect_of_all(std::size_t floats) {
  for (int from = 0; from < ranks(); ++from) {
    for (int to = 0; to < ranks(); ++to) {
      if (from != to) expect_message(from, to, floats);
    }
  }
}

void GroupWindow::expect_sum(std::size_t doubles) {
  expect_of_all(floats_of(doubles));
}

void GroupWindow::expect_shards(std::size_t floats) {
  expect_of_all(std::min(piece, shard(floats, 0, ranks()).length));
}

void GroupWindow::open() {
  if (!group_) {
    for (int other = 0; other < ranks(); ++other) {
      for (auto& copy : out_[other].copies) copy.resize(lengths_[rank()][other]);
      nothing_.resize(std::max(nothing_.size(), lengths_[other][rank()]));
    }
    return;
  }
  std::uint64_t print = 0;
  for (const auto& row : lengths_) {
    for (const std::size_t length : row) print = fingerprint({print, length});
  }
  require_same(*group_, print, "group window: ranks differ in the lengths of messages");
  transport_.emplace(*group_, slots_of(ranks(), rank()), options_, options_.carrier);
  for (int other = 0; other < ranks(); ++other) {
    Out& out = out_[other];
    out.peer = &transport_->peer(other);
    out.slots_there = slots_of(rank(), other);
    if (out.peer->shared == nullptr) {
      for (auto& copy : out.copies) copy.resize(lengths_[rank()][other]);
    }
    in_.push_back({&transport_->peer(other), slots_of(other, rank())});
  }
}

std::size_t GroupWindow::slot_bytes(int from, int to) const {
  return whole_lines(lengths_[from][to] * sizeof(float));
}

/// Where the slots for messages from `from` begin in the region of `to`; of all ranks: its size.
std::size_t GroupWindow::slots_of(int from, int to) const {
  std::size_t bytes = completed(2 * ranks());
  for (int before = 0; before < from; ++before) bytes += 2 * slot_bytes(before, to);
  return bytes;
}

HostVector<float> GroupWindow::room(int to, std::size_t length) {
  Out& out = out_.at(to);
  HALOGRAD_REQUIRE(length <= lengths_[rank()][to], "group window: a message of ", length, " values to rank ", to,
                   "; expected at most ", lengths_[rank()][to]);
  const std::int64_t version = out.posted + 1;
  if (version > 2 && group_) transport_->await(*out.peer, transport_->counter(cleared(to)), version - 2, "room for ");
  out.length = length;
  const auto slot = static_cast<std::size_t>(version % 2);
  if (!group_ || out.peer->shared == nullptr) return HostVector<float>(out.copies[slot].data(), length);
  std::byte* const there = out.peer->shared + out.slots_there + slot * slot_bytes(rank(), to);
  return HostVector<float>(reinterpret_cast<float*>(there), length);
}

void GroupWindow::post(int to) {
  Out& out = out_.at(to);
  const std::int64_t version = ++out.posted;
  bytes_sent_ += static_cast<std::int64_t>(out.length * sizeof(float));
  any_posted_ = true;
  if (!group_) return;
  if (out.peer->shared != nullptr) return transport_->set_counter(*out.peer, completed(rank()), version);
  const auto slot = static_cast<std::size_t>(version % 2);
  transport_->write(*out.peer, out.slots_there + slot * slot_bytes(rank(), to),
                    HostVector<const float>(out.copies[slot].data(), out.length));
  out.unfinished = true;
}

void GroupWindow::flush() {
  exchanges_ += any_posted_ ? 1 : 0;
  any_posted_ = false;
  if (!group_ || !transport_->uses_mpi()) return;
  const trace::Span span("flush", "comm");
  std::vector<HaloTransport::Counter> numbers;
  for (Out& out : out_) {
    if (out.unfinished) numbers.push_back({*out.peer, completed(rank()), out.posted});
    out.unfinished = false;
  }
  transport_->announce(numbers);
  for (In& in : in_) transport_->complete(*in.peer);
}

HostVector<const float> GroupWindow::receive(int from, std::size_t length) {
  if (!group_) return HostVector<const float>(nothing_.data(), length);
  In& in = in_.at(from);
  const trace::Span span("wait", "comm");
  const std::int64_t version = in.released + 1;
  transport_->await(*in.peer, transport_->counter(completed(from)), version, "the edges of ");
  return transport_->values(in.slots + static_cast<std::size_t>(version % 2) * slot_bytes(from, rank()), length);
}

void GroupWindow::release(int from) {
  if (!group_) return;
  In& in = in_.at(from);
  transport_->set_counter(*in.peer, cleared(rank()), ++in.released);
}

void GroupWindow::sum(HostVector<double> numbers) {
  const std::size_t count = numbers.extent(0), length = floats_of(count);
  const auto* const own = reinterpret_cast<const float*>(numbers.data());
  for (int to = 0; to < ranks(); ++to) {
    if (to == rank()) continue;
    std::copy(own, own + length, room(to, length).data());
    post(to);
  }
  flush();
  sums_.assign(count, 0);
  for (int from = 0; from < ranks(); ++from) {
    const bool here = from == rank();
    const auto* const values = here ? numbers.data() : reinterpret_cast<const double*>(receive(from, length).data());
    for (std::size_t i = 0; i < count; ++i) sums_[i] += values[i];
    if (!here) release(from);
  }
  std::copy(sums_.begin(), sums_.end(), numbers.data());
}

GroupWindow::Shard GroupWindow::shard(std::size_t count, int rank, int ranks) {
  const auto up = [](std::size_t a, std::size_t b) { return (a + b - 1) / b; };
  const std::size_t share = up(count, static_cast<std::size_t>(ranks)), cuts = std::max<std::size_t>(1, up(share, cut)),
                    most = cuts * up(share, cuts), begin = std::min(count, most * static_cast<std::size_t>(rank));
  return {begin, std::min(most, count - begin)};
}

/// What comes from position `at` of a rank's shard on, at most a piece; may be empty.
HostVector<float> GroupWindow::piece_of(HostVector<float> values, int rank, std::size_t at) const {
  const Shard whole = shard(values.extent(0), rank, ranks());
  const std::size_t begin = std::min(whole.length, at);
  return slice(values, whole.begin + begin, std::min(piece, whole.length - begin));
}

void GroupWindow::sum_shards(HostVector<float> values) {
  const std::size_t most = shard(values.extent(0), 0, ranks()).length;
  for (std::size_t at = 0; at < most; at += piece) {
    for (int to = 0; to < ranks(); ++to) {
      const auto part = piece_of(values, to, at);
      if (to == rank() || part.size() == 0) continue;
      std::copy_n(part.data(), part.size(), room(to, part.size()).data());
      post(to);
    }
    flush();
    const auto own = piece_of(values, rank(), at);
    if (own.size() == 0) continue;
    for (int from = 0; from < ranks(); ++from) {
      if (from == rank()) continue;
      const float* const part = receive(from, own.size()).data();
      float* const sums = own.data();
      for (std::size_t i = 0; i < own.size(); ++i) sums[i] += part[i];
      release(from);
    }
  }
}

void GroupWindow::gather(HostVector<float> values) {
  const std::size_t most = shard(values.extent(0), 0, ranks()).length;
  for (std::size_t at = 0; at < most; at += piece) {
    const auto own = piece_of(values, rank(), at);
    for (int to = 0; to < ranks(); ++to) {
      if (to == rank() || own.size() == 0) continue;
      std::copy_n(own.data(), own.size(), room(to, own.size()).data());
      post(to);
    }
    flush();
    for (int from = 0; from < ranks(); ++from) {
      const auto part = piece_of(values, from, at);
      if (from == rank() || part.size() == 0) continue;
      std::copy_n(receive(from, part.size()).data(), part.size(), part.data());
      release(from);
    }
  }
}

}  // namespace halograd
