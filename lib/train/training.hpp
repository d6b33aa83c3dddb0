#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "averagers/averager.hpp"
#include "support/seconds.hpp"
#include "train/finite_guard.hpp"
#include "train/run_files.hpp"
#include "train/shards.hpp"
#include "train/stop.hpp"
#include "train/trainer.hpp"
#include "window/injector.hpp"
#include "window/progress_thread.hpp"

namespace halograd {

/// Where a step stands among those of all ranks.
struct StepPlace {
  std::int64_t step = 0;      ///< of all ranks, since the first call of the program: its row of /step
  std::int64_t of_epoch = 0;  ///< the same in its epoch
  int lane = 0;               ///< which of the P parts of that step's batch it has: its column of /step
};

/// One call of the program: what begins or resumes it, a step, and what is saved. Whether ranks go through epochs
/// together (lockstep_training.cpp) or each at its own pace (free_training.cpp) is another matter.
class Training {
 public:
  /// Collective. Takes the run folder for this job, and begins a run there or resumes the one it holds.
  Training(TrainingSetup& setup, Report& report, const TrainOptions& options);
  virtual ~Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Collective. Trains what is left.
  virtual TrainingResult run() = 0;

 protected:
  // Begin or resume
  EpochSums restore();
  std::unique_ptr<Averager> start_averager();
  std::string restore_averager(Averager& averager);
  /// The epoch that this call ends with.
  [[nodiscard]] std::int64_t last_epoch() const;

  // Step
  StepMetrics train_step(const Batch& batch, const StepPlace& place);
  LossSum compute_gradient(const Batch& batch, std::uint64_t random_key, double share);
  LossSum compute_gradient_of_views(const Batch& batch, std::uint64_t random_key);
  void leave_out(const Batch& batch, std::uint64_t random_key);
  void update(double rate, bool finite, double share);
  /// Adds the row to the epoch's sums and to the files.
  void count(const StepMetrics& row, const Batch& batch, const StepPlace& place, double seconds);

  // Save
  /// Collective: brings the averager's exchanges to an end (Averager::settle), and has every rank see what that
  /// changed.
  void settle();
  /// Collective. Copies the state, and has it written.
  void save_state(CheckpointPlace place, const CheckpointHeader& header);
  /// The header of a checkpoint after so many steps of all ranks, `step_in_epoch` of them in the unfinished epoch.
  /// `optimizer_steps`: this rank's, as below. `scores`: of an epoch's end; null within one.
  [[nodiscard]] CheckpointHeader header_of(std::int64_t step, std::int64_t epoch, std::int64_t step_in_epoch,
                                           std::int64_t optimizer_steps, const EpochMetrics* scores) const;
  /// Where the run file asks for the state to be kept after so many steps, and `epochs` that are just done; 0: within
  /// one.
  [[nodiscard]] std::optional<CheckpointPlace> due_after(std::int64_t steps, std::int64_t epochs = 0) const;
  /// Whether output.checkpoint_minutes have passed without one.
  [[nodiscard]] bool checkpoint_overdue() const;
  /// To be called with each that this rank's state goes into.
  void checkpoint_begins(CheckpointPlace place);
  /// Reports checkpoints that have come to the disk, and has all ranks stop where files cannot be written.
  void look_after_files();
  /// The epoch over the ranks of `comm`, on which this is collective.
  [[nodiscard]] EpochSummary summarise(const Communicator& comm, std::int64_t epochs_done, const EpochSums& sums,
                                       const EpochMetrics& row) const;
  /// Prints an epoch's row, and adds it to the result.
  void end_epoch(const EpochSummary& summary, TrainingResult& result);
  /// "epoch 2, step 17 of 40 (57 steps in total)"
  [[nodiscard]] std::string position(const StepPlace& place, std::int64_t epoch) const;
  /// Says why and where the training stopped, and how to go on; throws where numbers were not finite. Collective.
  void stopped(StopReason reason, const StepPlace& place, std::int64_t epoch, TrainingResult& result);
  /// What all epochs of this call come to. Collective.
  void finish(TrainingResult& result, std::int64_t steps);

  TrainingSetup& setup_;
  const RunConfig& config_;
  const Communicator& world_;  ///< all ranks
  const Communicator& comm_;   ///< one of each replica
  Network& network_;
  Optimizer& optimizer_;
  Loader& loader_;
  const Replica& replica_;
  Shards shards_;  ///< of the replica, among the ranks of a group
  Report& report_;
  TrainOptions options_;
  ExecutionSpace exec_;
  Injector injector_;
  FiniteGuard guard_;
  Buffer<float> view_gradients_;  ///< summed up over the views of a batch; empty where the network sees it whole

  ClaimedFolder folder_;
  RunStart start_;
  std::int64_t own_steps_;        ///< steps of this rank, those before the checkpoint counted as all ranks' are
  std::int64_t optimizer_steps_;  ///< steps of this rank since its optimizer's state was zero, the current one included
  std::int64_t epoch_;            ///< whole epochs done
  EpochSums sums_;                ///< of the epoch after these
  std::int64_t step_in_epoch_;    ///< steps done of it
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<ProgressThread> progress_;  ///< null where none is needed
  RunFiles files_;
  StopRequest stop_;

  double rate_ = 0;               ///< learning rate of the step
  std::int64_t group_bytes_ = 0;  ///< that this rank has sent to others of its group in the steps of this call
  std::int64_t skipped_ = 0;      ///< updates of this rank that were left out in this call

 private:
  struct Totals {
    double images = 0, training_seconds = 0, waited = 0;
  };

  std::int64_t sent_before_;           ///< bytes, by the averager's start
  double last_saved_ = seconds_now();  ///< to the run folder
  Totals totals_;                      ///< of this call's epochs
};

/// The two ways of training. Collective.
std::unique_ptr<Training> make_lockstep_training(TrainingSetup& setup, Report& report, const TrainOptions& options);
std::unique_ptr<Training> make_free_training(TrainingSetup& setup, Report& report, const TrainOptions& options);

}  // namespace halograd
