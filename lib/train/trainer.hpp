#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "averagers/averager.hpp"
#include "config/config.hpp"
#include "data/loader.hpp"
#include "graph/topology.hpp"
#include "io/checkpoint.hpp"
#include "io/metrics.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "optimizers/optimizer.hpp"
#include "train/evaluation.hpp"
#include "train/finite_guard.hpp"
#include "train/report.hpp"
#include "train/run_files.hpp"
#include "train/stop.hpp"
#include "window/halo_memory.hpp"
#include "window/injector.hpp"
#include "window/progress_thread.hpp"

namespace halograd {

/// What is asked of one call of the program, beside the run file.
struct TrainOptions {
  bool resume = false;     ///< go on from the run folder's checkpoint, if there is one
  bool overwrite = false;  ///< replace a run that the folder holds
  std::string init;        ///< a checkpoint whose mean weights a new run starts with; empty: fresh weights
  int stop_after = 0;      ///< end, with a checkpoint, after so many epochs of this call; 0: train all
  bool trace = false;      ///< leave a trace of all ranks in the run folder
  std::string versions;    ///< of the program and its libraries, for the checkpoint
};

/// A training: one replica on this rank, kept together with the others by an Averager.
class Trainer {
 public:
  /// Collective. Builds and checks all that a training needs, and touches no file. Throws CollectiveError.
  Trainer(const RunConfig& config, const Communicator& comm, Report& report);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// What the start table says.
  [[nodiscard]] StartFacts facts() const;

  /// Collective. Prepares the run folder, trains, and leaves checkpoint and metrics.
  TrainingResult run(const TrainOptions& options);

 private:
  TrainingResult train(const TrainOptions& options);
  void open_run(const TrainOptions& options);
  /// Collective (resume.cpp).
  void resume(const std::string& checkpoint);
  /// Collective.
  void start_averager();
  /// Collective. Why the checkpoint's is not taken over; empty where it is, or neither has any (resume.cpp).
  std::string restore_averager(const std::string& checkpoint, const CheckpointHeader& header, const RunConfig& before);
  /// Trains what is left of the epoch, unless all are to stop before.
  StopReason train_epoch();
  /// Collective: deals the next epoch's batches by how fast each rank was in the last (step.cpp).
  void share_by_speed();
  StepMetrics train_step(const Batch& batch);
  LossSum compute_gradient(const Batch& batch, std::uint64_t random_key, double share);
  /// Takes back a step whose loss or gradient is not finite; counts it, or has all ranks stop, as configured.
  void leave_out(const Batch& batch, std::uint64_t random_key);
  void update(double rate, bool finite, double share);
  /// Collective: the epoch's metrics, unless all are to stop before they are known.
  StopReason evaluate_epoch(EpochMetrics& row);
  /// Collective: writes the epoch's metrics and, where one is due, its checkpoint.
  EpochSummary finish_epoch(const EpochMetrics& row, bool last);
  /// Collective: the epoch over all ranks.
  [[nodiscard]] EpochSummary summarise(const EpochMetrics& row) const;
  [[nodiscard]] bool checkpoint_is_due() const;
  /// Collective; `header` says how good the model is, if that is known.
  void save(CheckpointHeader header);
  /// Tells of checkpoints that have come to the disk, and has all stop where files cannot be written.
  void look_after_files();
  /// "epoch 2, step 17 of 40 (57 steps in all)"
  [[nodiscard]] std::string position() const;

  RunConfig config_;
  std::string versions_;
  const Communicator& comm_;
  Report& report_;
  ExecutionSpace exec_;
  Injector injector_;

  std::unique_ptr<Dataset> train_set_, test_set_;
  std::unique_ptr<Loader> loader_, whole_test_, shared_test_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Topology> topology_;
  HaloPlace halos_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<ProgressThread> progress_;  ///< null where none is needed
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<Stop> stop_;
  std::unique_ptr<FiniteGuard> guard_;
  Replica replica_, mean_;

  struct Speed {
    double images = 0, seconds = 0;
  };
  Speed speed_;  ///< of this rank's computing since shares were measured

  double rate_ = 0;                              ///< learning rate of the step
  std::int64_t step_ = 0;                        ///< steps done
  std::int64_t epoch_ = 0;                       ///< whole epochs done
  std::int64_t step_in_epoch_ = 0;               ///< steps done of the epoch after these
  EpochSums sums_;                               ///< of that epoch
  std::int64_t skipped_ = 0;                     ///< updates of this rank that were left out in this call
  double evaluation_seconds_ = 0;                ///< of the last epoch
  long whole_batches_ = 0, shared_batches_ = 0;  ///< of the test loaders, on the rank that has the most
};

}  // namespace halograd
