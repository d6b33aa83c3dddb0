#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"
#include "data/loader.hpp"
#include "graph/topology.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "optimizers/optimizer.hpp"
#include "train/replica_group.hpp"
#include "train/report.hpp"
#include "train/view_batches.hpp"
#include "window/halo_place.hpp"
#include "window/transport_choice.hpp"

namespace halograd {

/// What is asked of one call of the program, beside the run file.
struct TrainOptions {
  bool resume = false;     ///< continue from the run folder's newest checkpoint, if there is one
  bool overwrite = false;  ///< replace a run that the folder holds
  std::string init;        ///< a checkpoint whose mean weights a new run starts with; empty: fresh weights
  int stop_after = 0;      ///< end, with a checkpoint, after this many epochs of this call; 0: train all
  bool trace = false;      ///< leave a trace of all ranks in the run folder
  std::string versions;    ///< of the program and its libraries, for the checkpoint
};

/// What a training works with, complete and checked before its first step.
struct TrainingSetup {
  /// Collective. Touches no file of the run. Throws CollectiveError where the ranks' run files differ, where data,
  /// network and topology do not fit together, or where memory is short.
  TrainingSetup(const RunConfig& run_file, const Communicator& communicator);

  RunConfig config;           ///< with the network's layers written out
  const Communicator& world;  ///< all ranks
  ReplicaGroup group;         ///< those that share this rank's replica
  const Communicator&
      comm;  ///< a rank of each replica: what all of the training but the group's own work goes on among
  std::unique_ptr<Dataset> train_set, test_set;
  std::unique_ptr<Loader> loader;       ///< deals this rank its part of each global batch
  std::unique_ptr<Loader> whole_test;   ///< the whole test set, for this rank's replica
  std::unique_ptr<Loader> shared_test;  ///< this rank's part of the test set, for the mean model
  long whole_batches, shared_batches;   ///< of these two, on the rank that has the most
  std::unique_ptr<Network> network;
  std::unique_ptr<ViewBatches> views;  ///< as which the network sees a batch; null: as it is
  std::unique_ptr<Topology> topology;
  std::unique_ptr<Optimizer> optimizer;
  Replica replica;
  Replica mean;  ///< of all replicas, for evaluation, without gradients; where there is one replica, that one
  HaloPlace halos;
  TransportChoice transport;

  /// With the transport that was chosen.
  [[nodiscard]] CommConfig comm_config() const;
};

/// Whether each replica goes at its own pace, because the averager's ranks wait for nobody. One alone has nobody to
/// wait for, and keeps the promises of lockstep.
bool trains_freely(const RunConfig& config, const Communicator& comm);

/// A training: one replica on this rank, kept together with the others by an Averager.
class Trainer {
 public:
  /// Collective. Builds and checks all that a training needs, and touches no file. Throws CollectiveError.
  Trainer(const RunConfig& config, const Communicator& comm, Report& report) : setup_(config, comm), report_(report) {}

  /// The lines of the start table. Collective.
  [[nodiscard]] StartFacts facts() const;

  /// Collective. Prepares the run folder, trains, and leaves checkpoint and metrics. Throws CollectiveError.
  TrainingResult run(const TrainOptions& options);

 private:
  TrainingSetup setup_;
  Report& report_;
};

}  // namespace halograd
