#include "mpi/node_links.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

namespace halograd {
namespace {

constexpr int nobody = -1, beat = -2, farewell = -3;
constexpr int connect_milliseconds = 2000, hello_milliseconds = 10000;
constexpr auto between_beats = std::chrono::seconds(1);
constexpr int most_silent_beats = 15;
constexpr std::size_t most_addresses = 16;
constexpr int files_beside_links = 64;

/// How to reach the first node, and what shows that it is one of this job that does.
struct Invitation {
  std::uint64_t token = 0;
  std::uint32_t port = 0, count = 0;
  std::array<std::uint32_t, most_addresses> addresses{};  ///< IPv4, network byte order
};

struct Hello {
  std::uint64_t token = 0;
  std::int64_t rank = 0;
};

/// Other hosts' addresses of this one first, loopback last (for nodes that are none).
void add_addresses(Invitation& invitation) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return;
  for (const bool loopback : {false, true}) {
    for (const ifaddrs* each = all; each != nullptr && invitation.count < most_addresses; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET || (each->ifa_flags & IFF_UP) == 0)
        continue;
      if (((each->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
      invitation.addresses[invitation.count++] = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr;
    }
  }
  ::freeifaddrs(all);
}

int listening_socket(Invitation& invitation) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket, any, size) != 0 || ::listen(socket, SOMAXCONN) != 0 || ::getsockname(socket, any, &size) != 0) {
    ::close(socket);
    return -1;
  }
  invitation.port = address.sin_port;
  return socket;
}

bool becomes(int socket, short what, int milliseconds) {
  pollfd ready{socket, what, 0};
  int found = -1;
  do found = ::poll(&ready, 1, milliseconds);
  while (found < 0 && errno == EINTR);
  return found == 1 && (ready.revents & what) != 0;
}

int connected_socket(const Invitation& invitation) {
  for (std::uint32_t i = 0; i < invitation.count; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return -1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = static_cast<in_port_t>(invitation.port);
    address.sin_addr.s_addr = invitation.addresses[i];
    const int result = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    int error = result == 0 ? 0 : errno;
    if (error == EINPROGRESS && becomes(socket, POLLOUT, connect_milliseconds)) {
      socklen_t size = sizeof error;
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return socket;
    ::close(socket);
  }
  return -1;
}

/// The next connection; negative, with errno: none. Leaves this process descriptors for its files.
int accepted_socket(int listener) {
  int link = -1;
  do {
    link = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  } while (link < 0 && (errno == EINTR || errno == ECONNABORTED));
  rlimit open{};
  if (link < 0 || ::getrlimit(RLIMIT_NOFILE, &open) != 0) return link;
  if (static_cast<rlim_t>(link) + files_beside_links < open.rlim_cur) return link;
  ::close(link);
  errno = EMFILE;
  return -1;
}

void send_number(int socket, int number) {
  const auto word = static_cast<std::int32_t>(number);
  [[maybe_unused]] const auto sent = ::send(socket, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

NodeLinks::NodeLinks(const Communicator& leaders, int rank) : rank_(rank) {
  const int number = leaders.rank(), nodes = leaders.ranks();
  complete_ = nodes == 1;
  if (complete_) return;
  Invitation invitation;
  int socket = -1;
  if (number == 0) {
    std::random_device random;
    invitation.token = (static_cast<std::uint64_t>(random()) << 32U) + random();
    add_addresses(invitation);
    socket = listening_socket(invitation);
  }
  invitation = leaders.broadcast(invitation);
  if (number != 0) {
    socket = connected_socket(invitation);
    const Hello hello{invitation.token, rank};
    if (socket >= 0) {
      links_.push_back({socket, 0});
      complete_ = ::send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
    }
  }
  // Whoever has connected is accepted, however long others take to get there.
  const int connected = leaders.sum(complete_ ? 1 : 0);
  if (socket >= 0 && number == 0) accept(socket, invitation.token, connected);
  std::vector<int> accepted;
  for (const Link& link : links_) accepted.push_back(link.rank);
  accepted = leaders.broadcast(accepted);
  if (number == 0) {
    complete_ = static_cast<int>(links_.size()) == nodes - 1;
  } else if (std::find(accepted.begin(), accepted.end(), rank) == accepted.end()) {
    complete_ = false;  // and the end of this connection is no death
    for (const Link& link : links_) ::close(link.socket);
    links_.clear();
  }
  for (const Link& link : links_) {
    const int yes = 1;
    ::setsockopt(link.socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
}

/// Takes in whoever knows the token, of `connected` that do; closes `listener`.
void NodeLinks::accept(int listener, std::uint64_t token, int connected) {
  while (static_cast<int>(links_.size()) < connected && becomes(listener, POLLIN, hello_milliseconds)) {
    const int link = accepted_socket(listener);
    if (link < 0) {
      std::fprintf(stderr, "halograd: rank %d is linked to %zu of %d nodes: accept: %s%s\n", rank_, links_.size(),
                   connected, std::strerror(errno), errno == EMFILE ? " (ulimit -n)" : "");
      break;
    }
    Hello hello;
    if (becomes(link, POLLIN, hello_milliseconds) &&
        ::recv(link, &hello, sizeof hello, MSG_WAITALL) == static_cast<ssize_t>(sizeof hello) && hello.token == token) {
      links_.push_back({link, static_cast<int>(hello.rank)});
    } else {
      ::close(link);
    }
  }
  ::close(listener);
}

NodeLinks::~NodeLinks() {
  tell(farewell);
  for (const Link& link : links_) ::close(link.socket);
}

void NodeLinks::add_to(std::vector<pollfd>& descriptors) const {
  for (const Link& link : links_) descriptors.push_back({link.socket, POLLIN, 0});
}

int NodeLinks::look() {
  const Clock::time_point now = Clock::now();
  if (now - beaten_ > between_beats) {
    for (Link& link : links_) {
      send_number(link.socket, beat);
      ++link.silent_beats;
    }
    beaten_ = now;
  }
  int dead = nobody;
  for (Link& link : links_) {
    if (dead == nobody) dead = read(link);
    if (dead != nobody || link.silent_beats <= most_silent_beats) continue;
    std::fprintf(stderr, "halograd: rank %d: nothing was heard of rank %d's node for %d s\n", rank_, link.rank,
                 most_silent_beats);
    dead = link.rank;
  }
  std::erase_if(links_, [](const Link& link) { return link.socket < 0; });
  return dead;
}

/// Returns who has died; nobody: none has. Closes a link that was left in order.
int NodeLinks::read(Link& link) {
  for (;;) {
    std::int32_t word = 0;
    const ssize_t got = ::recv(link.socket, &word, sizeof word, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? nobody : link.rank;
    if (got == 0) return link.rank;
    link.silent_beats = 0;
    if (got != static_cast<ssize_t>(sizeof word)) continue;
    if (word >= 0) return word;
    if (word == farewell) {
      ::close(link.socket);
      link.socket = -1;
      return nobody;
    }
  }
}

void NodeLinks::tell(int rank) const {
  for (const Link& link : links_) send_number(link.socket, rank);
}

}  // namespace halograd
