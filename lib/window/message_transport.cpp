#include "window/message_transport.hpp"

#include <algorithm>
#include <atomic>

#include "mpi/wait.hpp"

namespace halograd {
namespace {

constexpr int tag = 0;

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
  Sent& sent = links_.at(rank).sent.emplace_back();
  sent.heading = heading;
  MPI_Isend(&sent.heading, sizeof sent.heading, MPI_BYTE, rank, tag, comm_.handle(), &sent.requests[0]);
  if (heading.floats == 0) return;
  MPI_Isend(values.data(), static_cast<int>(heading.floats), MPI_FLOAT, rank, tag, comm_.handle(), &sent.requests[1]);
}

/// Whether nothing is left after that.
bool MessageTransport::drop_sent(Link& link) {
  while (!link.sent.empty()) {
    int done = 0;
    std::array<MPI_Request, 2>& requests = link.sent.front().requests;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done == 0) return false;
    link.sent.pop_front();
  }
  return true;
}

bool MessageTransport::has_sent(int rank) {
  const std::lock_guard lock(mutex_);
  return drop_sent(links_.at(rank));
}

bool MessageTransport::has_sent() {
  const std::lock_guard lock(mutex_);
  return std::all_of(links_.begin(), links_.end(), [](auto& entry) { return drop_sent(entry.second); });
}

std::vector<int> MessageTransport::unsent_to() {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (auto& [rank, link] : links_) {
    if (!drop_sent(link)) ranks.push_back(rank);
  }
  return ranks;
}

bool MessageTransport::all_have_left() {
  const std::lock_guard lock(mutex_);
  return std::all_of(links_.begin(), links_.end(),
                     [](auto& entry) { return drop_sent(entry.second) && entry.second.ended; });
}

void MessageTransport::move_on() {
  const std::lock_guard lock(mutex_);
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_.handle(), &found, MPI_STATUS_IGNORE);
  for (auto& [rank, link] : links_) {
    drop_sent(link);
    if (found != 0 || link.receiving != MPI_REQUEST_NULL) receive(rank, link);
  }
}

// Messages of one rank come in order, and its values are received before its next heading is looked for.
void MessageTransport::receive(int rank, Link& link) {
  for (;;) {
    int found = 0;
    MPI_Test(&link.receiving, &found, MPI_STATUS_IGNORE);
    if (found == 0) return;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Improbe(rank, tag, comm_.handle(), &found, &message, MPI_STATUS_IGNORE);
    if (found == 0) return;
    Heading heading;
    MPI_Mrecv(&heading, sizeof heading, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    if (heading.offset < 0) {
      link.ended = true;
      return;
    }
    std::byte* const place = region_ + heading.offset;
    auto* const numbers = reinterpret_cast<std::int64_t*>(place);
    for (std::int64_t i = 0; i < heading.numbers; ++i) {
      std::atomic_ref<std::int64_t>(numbers[i])
          .store(heading.number[static_cast<std::size_t>(i)], std::memory_order_release);
    }
    // A reader copies a slot and then looks at the counter whether it was overwritten meanwhile
    // (HaloWindow::copy_latest): the values that come next into a slot may not be seen before the counter that stands
    // here.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (heading.floats == 0) continue;
    MPI_Irecv(place, static_cast<int>(heading.floats), MPI_FLOAT, rank, tag, comm_.handle(), &link.receiving);
  }
}

}  // namespace halograd
