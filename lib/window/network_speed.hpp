#pragma once

#include <string>
#include <vector>

#include "mpi/communicator.hpp"

namespace halograd {

/// The numbers of the latency-bandwidth model, as windows use the network.
struct NetworkSpeed {
  double latency = 0;         ///< seconds: half of a round trip of one number
  double bandwidth = 0;       ///< bytes per second that leave a rank by MPI_Put, while as many come
  double send_bandwidth = 0;  ///< the same of messages (window/message_transport.hpp); 0: not measured
  double transport = 0;       ///< seconds of a rank's computing that it loses per byte it sends while one comes
};

/// Whether MPI_Put reaches less than half of what messages do.
bool are_puts_slow(const NetworkSpeed& speed);

/// Collective, on two ranks or more; takes some seconds, in two of which these two compute with all their threads,
/// beside an exchange and alone. Between the first and the last rank; the same on all.
NetworkSpeed measure_network_speed(const Communicator& comm);

/// How fast a node is with the next and the former one in a circle of all nodes, of which the first ranks take part.
struct NodeSpeed {
  int rank = 0;
  NetworkSpeed speed;
};

/// What a self-test has found of the network between nodes.
struct NetworkTrial {
  /// All at once, and each with both of its neighbours, as halos travel: MPIs that do well one way at a time are found
  /// out. The same on all ranks.
  std::vector<NodeSpeed> nodes;
  std::string put_fault;  ///< why MPI_Put does not work, where it does not: its bandwidth is 0 then
};

/// Collective; takes some tenths of a second. With one node there is nothing to try. Throws CollectiveError where
/// messages do not arrive as they were sent.
NetworkTrial try_network(const Communicator& comm);

}  // namespace halograd
