#pragma once

#include <cstdint>
#include <string>

namespace halograd {

/// [topology]: the directed graph on the ranks.
struct TopologyConfig {
  std::string kind = "ring";          ///< a graph of graph/graphs.hpp or graph/dynamic_topology.hpp, or file
  std::string file;                   ///< kind = "file": TOML with ranks and [[edge]] from, to, weight
  std::string weights = "automatic";  ///< automatic, uniform, metropolis_hastings or out_degree
  int degree = 4;                     ///< random_regular: neighbours of a rank, even
  std::uint64_t seed = 1;             ///< of random graphs: which
  bool operator==(const TopologyConfig&) const = default;
};

/// [averager]: how the replicas are kept together.
struct AveragerConfig {
  /// none, allreduce, neighbour, push_sum, ad_psgd, gossip_grad, easgd, fast, hierarchical
  std::string name = "neighbour";
  std::string order = "combine_then_adapt";  ///< neighbour: combine_then_adapt or adapt_then_combine
  int staleness = 0;        ///< neighbour: steps that a halo may be behind; 0: exactly of the step, -1: any
  double age_factor = 1.0;  ///< neighbour: a halo's weight is multiplied by this for each step that it is behind
  double patience = 0.0;    ///< neighbour: seconds after which a late neighbour is left out; 0: wait for it
  bool overlap = false;     ///< push_sum: add up what was sent in the step before, so that the exchange hides
  int every = 1;            ///< steps between exchanges; with a consensus_target the most
  double consensus_target =
      0.0;                      ///< consensus distance to keep, in lengths of a step, by choice of the period; 0: none
  std::string codec = "fp32";   ///< neighbour: how weights travel: fp32, bf16, int8, top_k
  double kept_share = 0.02;     ///< top_k: share of the values that are sent
  double consensus_step = 0.0;  ///< codecs: share of the way to the neighbours' estimates; 0: by the codec
  double elasticity = 0.9;      ///< easgd: P alpha, share of the way to the replicas' mean that the centre goes
  int sync_epochs = 1;          ///< fast: epochs after which all take the best replica's weights; 0: never
  int global_every = 0;         ///< steps from one exact average of all replicas to the next; 0: none
  std::string momentum = "local";  ///< the optimizer's buffers: local or averaged with the weights
  bool operator==(const AveragerConfig&) const = default;
};

/// [comm.inject]: what goes wrong on purpose.
struct InjectConfig {
  int slow_rank = -1;          ///< this rank computes slowly; -1: none
  double slow_factor = 2.0;    ///< factor on the time of its computing
  double compute_us = 0.0;     ///< computing of a step takes at least so long, on every rank
  double latency_us = 0.0;     ///< what is sent arrives so much later
  double bandwidth_mb = 0.0;   ///< MB per second that each rank can send; 0: no limit
  double drop_fraction = 0.0;  ///< share of the halos that are lost on their way, of stale neighbour averaging
  std::uint64_t seed = 1;      ///< which halos are lost
  bool operator==(const InjectConfig&) const = default;
};

/// [comm]: the transport under neighbour averaging.
struct CommConfig {
  bool force_put = false;  ///< use MPI_Put also between ranks that share memory (to test the path between nodes)
  int ranks_per_node = 0;  ///< hierarchical: consecutive ranks that count as a node; 0: those that share memory
  int slots = 2;           ///< versions of a halo that can be in flight on an edge, at least 2
  int progress_us = 200;   ///< between looks of the thread that keeps puts going; 0: no such thread
  /// how halos travel between nodes: auto (put, unless writers wait for nobody, or a self-test finds it slow), put,
  /// send
  std::string transport = "auto";
  double report_seconds = 30;  ///< a wait for a neighbour that lasts longer is told on stderr, once
  /// neighbour: halos in device memory, put from there to there: auto (where MPI says that it can, and a self-test
  /// finds it so), on or off
  std::string device_windows = "auto";
  InjectConfig inject{};
  bool operator==(const CommConfig&) const = default;
};

}  // namespace halograd
