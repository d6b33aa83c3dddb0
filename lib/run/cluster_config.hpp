#pragma once

#include <string>

namespace halograd {

/// A cluster as `halograd plan` is told of it, on the command line or in a TOML file with these keys.
struct ClusterConfig {
  int nodes = 1;
  int ranks_per_node = 1;
  double latency_us = 2.0;     ///< from node to node
  double bandwidth_gb = 12.5;  ///< 1e9 bytes per second and direction of a node's network
  double transport_ns = 0.0;   ///< of a rank's computing, per byte that it sends over the network while one comes
  double memory_gb = 0.0;      ///< of a node, for the replica, its workspace and its halos; 0: not looked at
  double spread = 0.0;         ///< standard deviation of a rank's computing from step to step, relative to its mean
  double slowest = 1.0;        ///< factor on the computing of the slowest rank
};

/// Throws Error naming file, line and key where it is not as described.
ClusterConfig read_cluster(const std::string& path);

}  // namespace halograd
