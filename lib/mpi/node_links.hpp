#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

#include "mpi/communicator.hpp"

namespace halograd {

/// TCP links between the first ranks of the nodes of a job: a star around that of the first node. They carry one beat
/// per second both ways and, where a rank has died, its number.
class NodeLinks {
 public:
  /// Collective over `leaders`, the nodes' first ranks; `rank` is this one's number in the job. Links as many nodes as
  /// the first may open descriptors for, which it says on stderr where those are too few.
  NodeLinks(const Communicator& leaders, int rank);
  /// Takes leave of the others, for whom the end of this link is no death then.
  ~NodeLinks();
  NodeLinks(const NodeLinks&) = delete;
  NodeLinks& operator=(const NodeLinks&) = delete;

  /// Whether all nodes have a link, on the first; whether this one has, elsewhere.
  [[nodiscard]] bool complete() const { return complete_; }
  /// To wait on: readable where there is something for look().
  void add_to(std::vector<pollfd>& descriptors) const;
  /// Reads what has come, and beats. Returns the rank that has died, by word, by the end of its link or by its silence,
  /// which it says on stderr; -1: none.
  int look();
  /// Tells the others that this rank has died.
  void tell(int rank) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    int socket, rank;
    int silent_beats = 0;  ///< own beats since the link was heard; a clock would run on while this machine stands still
  };

  void accept(int listener, std::uint64_t token, int connected);
  static int read(Link& link);

  int rank_;
  std::vector<Link> links_;
  bool complete_ = false;
  Clock::time_point beaten_{};
};

}  // namespace halograd
