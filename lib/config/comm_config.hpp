#pragma once

#include <cstdint>
#include <string>

namespace halograd {

/// [topology]: the directed graph on the ranks.
struct TopologyConfig {
  std::string kind = "ring";          ///< a graph of comm/graphs.hpp or comm/dynamic_topology.hpp, or file
  std::string file;                   ///< kind = "file": TOML with ranks and [[edge]] from, to, weight
  std::string weights = "automatic";  ///< automatic, uniform, metropolis_hastings or out_degree
  int degree = 4;                     ///< random_regular: neighbours of a rank, even
  std::uint64_t seed = 1;             ///< of random graphs: which
  bool operator==(const TopologyConfig&) const = default;
};

/// [averager]: how the replicas are kept together.
struct AveragerConfig {
  std::string name = "neighbour";            ///< none, allreduce, neighbour, push_sum, ad_psgd, gossip_grad
  std::string order = "combine_then_adapt";  ///< neighbour: combine_then_adapt or adapt_then_combine
  int staleness = 0;        ///< neighbour: steps that a halo may be behind; 0: exactly of the step, -1: any
  double age_factor = 1.0;  ///< neighbour: a halo's weight is multiplied by this for each step that it is behind
  double patience = 0.0;    ///< neighbour: seconds after which a late neighbour is left out; 0: wait for it
  bool overlap = false;     ///< push_sum: add up what was sent in the step before, so that the exchange hides
  bool operator==(const AveragerConfig&) const = default;
};

/// [comm.inject]: what goes wrong on purpose.
struct InjectConfig {
  int slow_rank = -1;          ///< this rank computes slowly; -1: none
  double slow_factor = 2.0;    ///< its computing takes so many times as long
  double latency_us = 0.0;     ///< what is sent arrives so much later
  double drop_fraction = 0.0;  ///< share of the halos that are lost on their way, of stale neighbour averaging
  std::uint64_t seed = 1;      ///< which halos are lost
  bool operator==(const InjectConfig&) const = default;
};

/// [comm]: the transport under neighbour averaging.
struct CommConfig {
  bool force_put = false;      ///< use MPI_Put also between ranks that share memory (to test the path between nodes)
  int slots = 2;               ///< versions of a halo that can be in flight on an edge, at least 2
  double report_seconds = 30;  ///< a wait for a neighbour that lasts longer is told on stderr, once
  InjectConfig inject{};
  bool operator==(const CommConfig&) const = default;
};

}  // namespace halograd
