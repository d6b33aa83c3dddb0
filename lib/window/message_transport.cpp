#include "window/message_transport.hpp"

#include <algorithm>
#include <atomic>

#include "mpi/wait.hpp"

namespace halograd {
namespace {

constexpr int tag = 0;
// Messages to a peer that MPI has at once, and values from it that are received at once. With one alone a link is idle
// until its end is seen and the next one begins. Too many cost time: whenever MPI looks for a message, it goes through
// all that have come and are not received yet.
constexpr std::size_t most_under_way = 64;

}  // namespace

MessageTransport::MessageTransport(const Communicator& comm, std::byte* region, std::size_t most_floats)
    : comm_(comm), region_(region), most_floats_(most_floats), hook_([this] { move_on(); }) {}

MessageTransport::~MessageTransport() {
  if (unwinding_.now()) return;
  for (const auto& entry : links_) send(entry.first, {.offset = -1});
  PolitePause pause;
  while (!all_have_left()) {
    move_on();
    pause();
  }
}

void MessageTransport::add_peer(int rank) {
  const std::lock_guard lock(mutex_);
  links_.try_emplace(rank);
}

void MessageTransport::write(int rank, std::size_t offset, HostVector<const float> values) {
  for (std::size_t begin = 0; begin < values.extent(0); begin += most_floats_) {
    const std::size_t length = std::min(most_floats_, values.extent(0) - begin);
    send(rank,
         {.offset = static_cast<std::int64_t>(offset + begin * sizeof(float)),
          .floats = static_cast<std::int64_t>(length)},
         HostVector<const float>(values.data() + begin, length));
  }
}

void MessageTransport::write(int rank, std::size_t offset, std::span<const std::int64_t> numbers) {
  Heading heading{.offset = static_cast<std::int64_t>(offset), .numbers = static_cast<std::int64_t>(numbers.size())};
  std::copy(numbers.begin(), numbers.end(), heading.number.begin());
  send(rank, heading);
}

void MessageTransport::send(int rank, const Heading& heading, HostVector<const float> values) {
  const std::lock_guard lock(mutex_);
  Link& link = links_.at(rank);
  link.sent.push_back({heading, values});
  go_on_sending(rank, link);
}

/// Whether nothing is left after that.
bool MessageTransport::go_on_sending(int rank, Link& link) {
  for (; link.begun > 0; --link.begun) {
    int done = 0;
    std::array<MPI_Request, 2>& requests = link.sent.front().requests;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done == 0) break;
    link.sent.pop_front();
  }
  for (; link.begun < std::min(link.sent.size(), most_under_way); ++link.begun) {
    Sent& next = link.sent[link.begun];
    MPI_Isend(&next.heading, sizeof next.heading, MPI_BYTE, rank, tag, comm_.handle(), &next.requests[0]);
    if (next.heading.floats == 0) continue;
    // Synchronous: not over before it is received, so that a reader is never flooded.
    MPI_Issend(next.values.data(), static_cast<int>(next.heading.floats), MPI_FLOAT, rank, tag, comm_.handle(),
               &next.requests[1]);
  }
  return link.sent.empty();
}

bool MessageTransport::has_sent(int rank) {
  const std::lock_guard lock(mutex_);
  return go_on_sending(rank, links_.at(rank));
}

bool MessageTransport::has_sent() {
  const std::lock_guard lock(mutex_);
  return std::all_of(links_.begin(), links_.end(),
                     [this](auto& entry) { return go_on_sending(entry.first, entry.second); });
}

std::vector<int> MessageTransport::unsent_to() {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (auto& [rank, link] : links_) {
    if (!go_on_sending(rank, link)) ranks.push_back(rank);
  }
  return ranks;
}

bool MessageTransport::all_have_left() {
  const std::lock_guard lock(mutex_);
  return std::all_of(links_.begin(), links_.end(),
                     [this](auto& entry) { return go_on_sending(entry.first, entry.second) && entry.second.ended; });
}

void MessageTransport::move_on() {
  const std::lock_guard lock(mutex_);
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_.handle(), &found, MPI_STATUS_IGNORE);
  for (auto& [rank, link] : links_) {
    go_on_sending(rank, link);
    if (found != 0 || !link.receiving.empty()) receive(rank, link);
  }
}

// Messages of one rank come in order. Values may come while those before them still do; numbers wait for these, and
// what comes after numbers for them.
void MessageTransport::receive(int rank, Link& link) {
  for (;;) {
    for (int done = 0; !link.receiving.empty(); link.receiving.pop_front()) {
      MPI_Test(&link.receiving.front(), &done, MPI_STATUS_IGNORE);
      if (done == 0) break;
    }
    if (link.after) {
      if (!link.receiving.empty()) return;
      link.ended = link.after->offset < 0;
      if (!link.ended) store_numbers(*link.after);
      link.after.reset();
    }
    if (link.receiving.size() == most_under_way) return;
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Improbe(rank, tag, comm_.handle(), &found, &message, MPI_STATUS_IGNORE);
    if (found == 0) return;
    Heading heading;
    MPI_Mrecv(&heading, sizeof heading, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    if (heading.floats == 0) {
      link.after = heading;
      continue;
    }
    MPI_Irecv(region_ + heading.offset, static_cast<int>(heading.floats), MPI_FLOAT, rank, tag, comm_.handle(),
              &link.receiving.emplace_back(MPI_REQUEST_NULL));
  }
}

void MessageTransport::store_numbers(const Heading& heading) {
  auto* const numbers = reinterpret_cast<std::int64_t*>(region_ + heading.offset);
  for (std::int64_t i = 0; i < heading.numbers; ++i) {
    std::atomic_ref<std::int64_t>(numbers[i])
        .store(heading.number[static_cast<std::size_t>(i)], std::memory_order_release);
  }
  // A reader copies a slot and then looks at the counter whether it was overwritten meanwhile
  // (HaloWindow::copy_latest): the values that come next into a slot may not be seen before the counter that stands
  // here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace halograd
