#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/mix.hpp"
#include "mpi/wait.hpp"
#include "run/training_choices.hpp"
#include "support/seconds.hpp"
#include "support/trace.hpp"
#include "train/evaluation.hpp"
#include "train/training.hpp"

namespace halograd {
namespace {

/// All ranks go through epochs together: the same number of steps each, an evaluation and a checkpoint of all, a stop
/// at the same step.
class LockstepTraining final : public Training {
 public:
  LockstepTraining(TrainingSetup& setup, Report& report, const TrainOptions& options)
      : Training(setup, report, options), agreement_(world_, stop_) {}

  TrainingResult run() override;

 private:
  struct Speed {
    double images = 0, seconds = 0;
  };

  [[nodiscard]] StepPlace place() const { return {own_steps_, step_in_epoch_, comm_.rank()}; }
  // Collective, all of them.
  StopReason train_epoch(EpochMetrics& row);
  void share_by_speed();
  StopReason evaluate_epoch(EpochMetrics& row);
  void finish_epoch(EpochMetrics& row, TrainingResult& result);
  void save(CheckpointPlace place, const EpochMetrics* scores);

  StopAgreement agreement_;
  Speed speed_;                    ///< of this rank's computing since shares were measured
  double evaluation_seconds_ = 0;  ///< of the last epoch
  bool asked_at_end_ = false;      ///< for a checkpoint, after an epoch's last step
};

/// Trains what is left of the epoch, unless all are to stop before its end.
StopReason LockstepTraining::train_epoch(EpochMetrics& row) {
  if (shares_by_speed(config_.training)) share_by_speed();
  loader_.start_epoch(epoch_, step_in_epoch_);
  report_.epoch_begins(epoch_, config_.training.epochs, loader_.steps(), step_in_epoch_);
  double begin = seconds_now();
  const auto next_batch = [this] {
    const trace::Span span("data", "data");
    return loader_.next();
  };
  while (const Batch* batch = next_batch()) {
    const double data_seconds = seconds_now() - begin;
    const StepPlace at = place();
    StepMetrics step = train_step(*batch, at);
    ++step_in_epoch_;
    look_after_files();
    const double waited = seconds_waited();
    const AgreedNext next = agreement_.after_step(checkpoint_overdue());
    step.wait_seconds += seconds_waited() - waited;
    step.data_seconds = data_seconds;
    step.samples = epoch_ * setup_.train_set->size() + at.of_epoch * config_.training.batch;
    const double end = seconds_now();
    step.images_per_second = batch->size / (end - begin);
    count(step, *batch, at, end - begin);
    speed_.images += batch->size;
    speed_.seconds += step.compute_seconds;
    report_.step(step_in_epoch_, step.loss, batch->global_size);
    begin = end;
    if (next.stop != StopReason::none) return next.stop;
    if (step_in_epoch_ == loader_.steps()) {
      asked_at_end_ = next.checkpoint;
      continue;
    }
    if (next.checkpoint) {
      save(CheckpointPlace::run_folder, nullptr);
    } else if (const auto place = due_after(own_steps_)) {
      save(*place, nullptr);
    }
  }
  const double waited = seconds_waited();
  const StopReason reason = agreement_.now(evaluation_seconds_);
  row.wait_seconds = seconds_waited() - waited;
  return reason;
}

/// Deals the next epoch's batches by how fast each rank was in the last.
void LockstepTraining::share_by_speed() {
  const std::vector<double> speeds = comm_.gather(speed_.seconds > 0 ? speed_.images / speed_.seconds : 0);
  speed_ = {};
  const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
  if (*slowest <= 0) return;  // nothing was measured yet
  loader_.set_shares(speeds);
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const auto part = [&](auto at) {
    return std::to_string(std::lround(1000 * *at / sum)) + " (rank " + std::to_string(at - speeds.begin()) + ")";
  };
  report_.line("  shares of epoch " + std::to_string(epoch_ + 1) + " in thousandths of a batch: " + part(slowest) +
               " to " + part(fastest));
}

/// The epoch's metrics, unless all are to stop before they are known.
StopReason LockstepTraining::evaluate_epoch(EpochMetrics& row) {
  const trace::Span span("evaluate", "train");
  const double begin = seconds_now(), waited = seconds_waited();
  StopReason reason = StopReason::none;
  const auto go_on = [&] { return (reason = agreement_.after_evaluated_batch()) == StopReason::none; };
  settle();
  row.train_loss = sums_.images > 0 ? sums_.loss / sums_.images : 0;
  row.images = static_cast<std::int64_t>(sums_.images);
  const auto mean_over_ranks = [&](const Vector<float>& from, const Vector<float>& to) {
    const auto host = Kokkos::create_mirror_view(to);
    Kokkos::deep_copy(host, from);
    comm_.mean(host);
    Kokkos::deep_copy(to, host);
  };
  const Replica& mean_model = setup_.mean;
  if (comm_.ranks() > 1) {
    mean_over_ranks(shards_.of(replica_.parameters), shards_.of(mean_model.parameters));
    shards_.gather(mean_model.parameters);
    mean_over_ranks(replica_.statistics, mean_model.statistics);
  }
  // Running statistics describe the weights' activations: replicas that are held together share them.
  const bool apart = row_of(config_.averager).exchanges == Exchange::nothing && config_.averager.global_every == 0;
  if (!apart) Kokkos::deep_copy(replica_.statistics, mean_model.statistics);

  const Evaluation own =
      evaluate(exec_, network_, replica_, *setup_.whole_test, setup_.views.get(), setup_.whole_batches, go_on);
  if (reason != StopReason::none) return reason;
  row.test_loss = own.loss();
  row.test_score = own.score();
  const Evaluation part =
      evaluate(exec_, network_, mean_model, *setup_.shared_test, setup_.views.get(), setup_.shared_batches, go_on);
  if (reason != StopReason::none) return reason;
  const Evaluation mean = over_ranks(part, comm_);
  row.mean_model_loss = mean.loss();
  row.mean_model_score = mean.score();
  const double distance = comm_.sum(squared_distance(exec_, replica_.parameters, mean_model.parameters));
  row.consensus_distance = std::sqrt(distance / comm_.ranks());
  const double seconds = seconds_now() - begin, waiting = seconds_waited() - waited;
  row.wait_seconds += waiting;
  row.evaluation_seconds += seconds - waiting;
  evaluation_seconds_ = seconds;
  return reason;
}

/// Writes the epoch's metrics and, where one is due, its checkpoint.
void LockstepTraining::finish_epoch(EpochMetrics& row, TrainingResult& result) {
  row.seconds = sums_.training_seconds + row.wait_seconds + row.evaluation_seconds;
  row.steps = own_steps_;
  files_.add_epoch(row, averager_->take_edges());
  ++epoch_;
  end_epoch(summarise(comm_, epoch_, sums_, row), result);
  step_in_epoch_ = 0;
  sums_ = {};
  const bool asked = std::exchange(asked_at_end_, false);
  if (const auto place = asked ? CheckpointPlace::run_folder : due_after(own_steps_, epoch_)) save(*place, &row);
}

void LockstepTraining::save(CheckpointPlace place, const EpochMetrics* scores) {
  save_state(place, header_of(own_steps_, epoch_, step_in_epoch_, optimizer_steps_, scores));
}

TrainingResult LockstepTraining::run() {
  const std::int64_t last = last_epoch();
  TrainingResult result;
  if (epoch_ == last) {
    report_.line("Nothing is left to train: training.epochs = " + std::to_string(config_.training.epochs) +
                 " are done");
    EpochMetrics row;
    result.stopped = to_string(evaluate_epoch(row));
    result.last = summarise(comm_, epoch_, sums_, row);
    result.last.train_loss = std::numeric_limits<double>::quiet_NaN();
  }
  while (epoch_ < last) {
    EpochMetrics row;
    StopReason reason = train_epoch(row);
    if (reason == StopReason::none) reason = evaluate_epoch(row);
    const double score = goodness(metric_of(config_.loss.name).name, row.test_score);
    const bool whole = reason == StopReason::none;
    if (whole && averager_->after_epoch(exec_, epoch_ + 1, shards_.of(replica_.parameters), score)) {
      shards_.gather(replica_.parameters);
      reason = evaluate_epoch(row);
    }
    if (reason != StopReason::none) {
      save(CheckpointPlace::run_folder, nullptr);
      files_.finish();
      stopped(reason, place(), epoch_, result);
      break;
    }
    finish_epoch(row, result);
  }
  finish(result, own_steps_);
  return result;
}

}  // namespace

std::unique_ptr<Training> make_lockstep_training(TrainingSetup& setup, Report& report, const TrainOptions& options) {
  return std::make_unique<LockstepTraining>(setup, report, options);
}

}  // namespace halograd
