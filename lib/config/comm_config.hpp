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
  std::uint64_t seed = 1;             ///< selects the random graphs
  bool operator==(const TopologyConfig&) const = default;
};

/// [averager]: how the replicas are kept together.
struct AveragerConfig {
  /// none, allreduce, neighbour, push_sum, ad_psgd, gossip_grad, easgd, fast, hierarchical
  std::string name = "neighbour";
  std::string order = "combine_then_adapt";  ///< neighbour: combine_then_adapt or adapt_then_combine
  int staleness = 0;        ///< neighbour, push_sum, fast: steps that what has come may be behind; 0: none, -1: any
  double age_factor = 1.0;  ///< neighbour: a halo's weight is multiplied by this for each step that it is behind
  double patience = 0.0;    ///< neighbour: seconds after which a late neighbour is left out; 0: wait for it
  bool overlap = false;     ///< push_sum: add up what was sent in the step before, so that the exchange hides
  int every = 1;            ///< steps from one exchange to the next; with a consensus_target at most
  /// consensus distance to keep by choice of the period, in lengths of the optimizer's step; 0: none
  double consensus_target = 0.0;
  std::string codec = "fp32";      ///< how weights or gradients travel: fp32, bf16, int8, top_k
  double kept_share = 0.02;        ///< top_k: share of the values that are sent
  double consensus_step = 0.0;     ///< codecs: share of the way to the neighbours' estimates; 0: by the codec
  double elasticity = 0.9;         ///< easgd: P alpha, share of the way to the replicas' mean that the centre goes
  int sync_epochs = 1;             ///< fast: epochs after which all take the best replica's weights; 0: never
  int global_every = 0;            ///< steps from one exact average of all replicas to the next; 0: none
  std::string momentum = "local";  ///< the optimizer's buffers: local or averaged with the weights
  bool operator==(const AveragerConfig&) const = default;
};

/// [comm.inject]: what goes wrong on purpose.
struct InjectConfig {
  int slow_rank = -1;          ///< this rank computes slowly; -1: none
  double slow_factor = 2.0;    ///< factor on the time that it computes
  double compute_us = 0.0;     ///< least time that every rank computes in a step
  double latency_us = 0.0;     ///< time by which what is sent arrives later
  double bandwidth_mb = 0.0;   ///< 10^6 bytes per second that each rank can send; 0: no limit
  double drop_fraction = 0.0;  ///< neighbour at a free pace: share of the halos that is lost on the way
  std::uint64_t seed = 1;      ///< selects the halos that are lost
  bool operator==(const InjectConfig&) const = default;
};

/// [comm]: how halos travel between ranks.
struct CommConfig {
  bool force_put = false;  ///< ranks that share memory exchange as between nodes, to test that path
  int ranks_per_node = 0;  ///< hierarchical: consecutive ranks that count as a node; 0: those that share memory
  int slots = 2;           ///< versions of a halo that can be in flight on an edge, at least 2
  int progress_us = 1000;  ///< between polls of the thread that receives and keeps puts going; 0: no such thread
  /// how halos travel between nodes: put, send or auto (put, but send where writers wait for nobody or a self-test
  /// finds MPI_Put slow)
  std::string transport = "auto";
  int piece_kb = 0;            ///< values travel between nodes in pieces of so many kB; 0: as the links ask for
  double report_seconds = 30;  ///< a wait for a neighbour that lasts longer is reported on stderr, once
  /// neighbour: halos in device memory, put from there to there: auto (where MPI says that it can, and a self-test
  /// finds it so), on or off
  std::string device_windows = "auto";
  InjectConfig inject{};
  bool operator==(const CommConfig&) const = default;
};

}  // namespace halograd
