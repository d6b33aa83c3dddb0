#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/wait.hpp"
#include "support/seconds.hpp"
#include "support/trace.hpp"
#include "train/evaluation.hpp"
#include "train/lent_kernels.hpp"
#include "train/training.hpp"
#include "window/deck.hpp"

namespace halograd {
namespace {

constexpr std::size_t most_pending = 4;  // ends of epochs and checkpoints, each with a copy of the state
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Every rank goes at its own pace, and waits for no other before the last lot is done. What couples ranks elsewhere is
/// done without waiting here:
///
/// Samples. A Deck deals lots: whoever is done with one takes the next, so that a rank twice as fast trains on twice as
/// many. Lot l is part l % P of the batch of step l / P, whoever has it.
///
/// Ends of epochs, and checkpoints. Lots are numbered, and each rank's ascend: "all lots below c" is the same set on
/// all ranks, however far apart they are. Before its first lot that is not below, a rank copies its state, and goes on.
/// The thread that writes files waits for all ranks' copies, has their mean evaluated by the training's threads between
/// two steps, and writes metrics and checkpoint. Where the clock decides when, it is rank 0's, which marks the deck.
///
/// Stopping. A rank that is to stop ends the deck; the others learn of it when they ask for their next lot.
///
/// Groups. Ranks that share a replica are one trainer: the first of them draws the lots for all. What they compute
/// together hangs on the lots, or on what any or all of them say.
class FreeTraining final : public Training {
 public:
  FreeTraining(TrainingSetup& setup, Report& report, const TrainOptions& options)
      : Training(setup, report, options),
        ranks_(comm_.ranks()),
        lots_(loader_.lots()),
        first_((epoch_ * loader_.steps() + step_in_epoch_) * ranks_),
        deck_(world_, {first_, last_epoch() * lots_, lots_, loader_.lots_at_once(), ranks_},
              config_.comm.report_seconds, setup_.group.group()),
        next_cut_(step_in_epoch_ == loader_.steps() ? first_ : cut_from(first_ + 1)) {}
  /// Ends the threads that use this, before what they use.
  ~FreeTraining() override {
    deck_.leave();
    loader_.stop();
    kernels_.close();
    files_.stop();
  }
  FreeTraining(const FreeTraining&) = delete;
  FreeTraining& operator=(const FreeTraining&) = delete;

  TrainingResult run() override;

 private:
  /// What a rank comes to the end of an epoch with.
  struct EpochEnd {
    std::int64_t epochs = 0;           ///< done with it
    std::int64_t optimizer_steps = 0;  ///< that its optimizer's state has made
    std::shared_ptr<const ReplicaMemory> state;
    std::vector<StepRow> steps;
    std::vector<EdgeRecord> edges;
    EpochSums sums;
    EpochMetrics row;
    std::optional<CheckpointPlace> saves;
  };

  // Position
  [[nodiscard]] std::int64_t step_at(std::int64_t lot) const { return start_.header.step + (lot - first_) / ranks_; }
  [[nodiscard]] StepPlace place_of(std::int64_t lot) const;
  [[nodiscard]] std::int64_t cut_from(std::int64_t lot) const;
  [[nodiscard]] std::optional<CheckpointPlace> due_at(std::int64_t cut, std::int64_t epochs = 0) const;
  // Step
  void train_lot(const Batch& batch, double data_seconds, double dealing_seconds);
  void ask_to_stop(StopReason reason);
  /// Whether no rank of the group has asked to stop, or does now.
  bool goes_on();
  // Ends of epochs, checkpoints
  [[nodiscard]] std::int64_t next_cut() const;
  void pass_cuts(std::int64_t lot);
  void mark_overdue_checkpoint();
  void end_epoch_at(std::int64_t lot);
  void evaluate_own(EpochMetrics& row);
  void save_at(std::int64_t lot, CheckpointPlace place);
  [[nodiscard]] std::shared_ptr<ReplicaMemory> copy_state();
  // By the thread of the files, collective
  void conclude(EpochEnd& end);
  void evaluate_mean(EpochEnd& end);
  void hand_over(const EpochEnd& end);
  /// Evaluates a mean model if the group's threads ask for it.
  void lend_kernels();
  /// Lends its kernels until no more than so many ends and checkpoints are not on the disk.
  void catch_up(std::size_t pending);
  // End
  [[nodiscard]] StopReason asked_by_any() const;
  void wait_for_all();
  void report_epochs(TrainingResult& result);
  TrainingResult evaluate_only();

  int ranks_;
  std::int64_t lots_;   ///< of an epoch
  std::int64_t first_;  ///< of this call
  Deck deck_;
  std::int64_t next_cut_;  ///< of the run file's: before which lot this rank has to copy its state next
  std::int64_t passed_ = first_, marked_ = first_;  ///< newest cut of this rank; newest mark of rank 0
  std::atomic<std::int64_t> concluded_ = first_;    ///< newest cut that all ranks have passed
  StopReason asked_ = StopReason::none;
  double deck_seconds_ = 0;             ///< for which the deck has waited before this lot
  double step_seconds_ = 0;             ///< of the longest step
  double epoch_begin_ = seconds_now();  ///< of this rank
  double waited_ = 0, copied_ = 0;      ///< seconds outside of steps, in this epoch
  double evaluation_seconds_ = 0;       ///< of the last one
  std::int64_t last_lot_ = -1;          ///< of this rank
  std::mutex mutex_;                    // guards ended_
  std::vector<EpochSummary> ended_;     ///< epochs that are to be reported
  LentKernels kernels_;
};

// Position ------------------------------------------------------------------------------------------------------------

StepPlace FreeTraining::place_of(std::int64_t lot) const {
  return {step_at(lot), (lot - epoch_ * lots_) / ranks_, static_cast<int>(lot % ranks_)};
}

/// The first at `lot` or later.
std::int64_t FreeTraining::cut_from(std::int64_t lot) const {
  std::int64_t cut = (lot + lots_ - 1) / lots_ * lots_;                                 // an epoch's end
  const std::int64_t step = start_.header.step + (lot - first_ + ranks_ - 1) / ranks_;  // rounded up
  for (const int every : {config_.output.checkpoint_steps, config_.output.local_steps}) {
    if (every == 0) continue;
    const std::int64_t next = (step + every - 1) / every * every;
    cut = std::min(cut, first_ + (next - start_.header.step) * ranks_);
  }
  return cut;
}

// Step ----------------------------------------------------------------------------------------------------------------

/// `dealing_seconds`: for which this rank has waited to learn its lot, and not for its images.
void FreeTraining::train_lot(const Batch& batch, double data_seconds, double dealing_seconds) {
  const std::int64_t lot = batch.number;
  const StepPlace place = place_of(lot);
  const double begin = seconds_now();
  StepMetrics row = train_step(batch, place);
  const double seconds = seconds_now() - begin;
  row.data_seconds = data_seconds - dealing_seconds;
  row.wait_seconds += dealing_seconds;
  row.samples = epoch_ * setup_.train_set->size() + place.of_epoch * config_.training.batch;
  row.images_per_second = batch.size / (data_seconds + seconds);
  count(row, batch, place, data_seconds + seconds);
  step_seconds_ = std::max(step_seconds_, data_seconds + seconds);
  const auto lots = static_cast<int>(last_lot_ < 0 ? ranks_ : lot - last_lot_);
  last_lot_ = lot;
  report_.step(place.of_epoch + 1, row.loss, lots * batch.size);
}

void FreeTraining::ask_to_stop(StopReason reason) {
  if (reason == StopReason::none || asked_ != StopReason::none) return;
  asked_ = reason;
  deck_.end();
}

bool FreeTraining::goes_on() {
  ask_to_stop(stop_.reason(0));
  return !setup_.group.any(asked_ != StopReason::none);
}

// Ends of epochs, checkpoints -----------------------------------------------------------------------------------------

/// The run file's or the deck's mark.
std::int64_t FreeTraining::next_cut() const {
  const std::int64_t mark = deck_.marked();
  return mark > passed_ ? std::min(mark, next_cut_) : next_cut_;
}

/// Before the training of `lot`.
void FreeTraining::pass_cuts(std::int64_t lot) {
  while (next_cut() <= lot) {
    const std::int64_t cut = next_cut();
    if (cut == next_cut_) next_cut_ = cut_from(cut + 1);
    passed_ = cut;
    catch_up(most_pending - 1);
    cut == (epoch_ + 1) * lots_ ? end_epoch_at(cut) : save_at(cut, due_at(cut).value());
  }
}

/// As due_after(), for a cut that ends `epochs`, or none. Ranks that draw no more do not all know of a mark at the end.
std::optional<CheckpointPlace> FreeTraining::due_at(std::int64_t cut, std::int64_t epochs) const {
  const bool overdue = cut == deck_.marked() && cut < last_epoch() * lots_;
  return overdue ? CheckpointPlace::run_folder : due_after(step_at(cut), epochs);
}

/// Once all ranks are done with the one before.
void FreeTraining::mark_overdue_checkpoint() {
  if (world_.rank() != 0 || marked_ > concluded_ || !checkpoint_overdue()) return;
  marked_ = deck_.mark();
}

void FreeTraining::lend_kernels() {
  if (setup_.group.all(kernels_.wanted())) kernels_.lend();
}

void FreeTraining::catch_up(std::size_t pending) {
  const double begin = seconds_now();
  const auto is_behind = [this, pending] { return files_.pending() > pending; };
  PolitePause pause;
  do {
    do pause();
    while (is_behind() && !kernels_.wanted());
    lend_kernels();
  } while (setup_.group.any(is_behind()));
  waited_ += seconds_now() - begin;
}

void FreeTraining::save_at(std::int64_t lot, CheckpointPlace place) {
  checkpoint_begins(place);
  const double begin = seconds_now();
  const std::int64_t step = step_at(lot), of_epoch = (lot - epoch_ * lots_) / ranks_;
  files_.post([this, lot, place, copy = copy_state(), steps = files_.take_steps(),
               header = header_of(step, epoch_, of_epoch, optimizer_steps_, nullptr), failure = stop_.failure()] {
    files_.write_checkpoint(place, header, *copy, steps, failure);
    concluded_ = lot;
  });
  copied_ += seconds_now() - begin;
}

std::shared_ptr<ReplicaMemory> FreeTraining::copy_state() {
  return files_.copy(replica_, optimizer_, shards_, averager_->state(), sums_);
}

void FreeTraining::end_epoch_at(std::int64_t lot) {
  const double begin = seconds_now();
  auto end = std::make_shared<EpochEnd>();
  EpochMetrics& row = end->row;
  row.train_loss = sums_.images > 0 ? sums_.loss / sums_.images : 0;
  row.images = static_cast<std::int64_t>(sums_.images);
  end->epochs = epoch_ + 1;
  evaluate_own(row);
  const Vector<float> own = shards_.of(replica_.parameters);
  bool changed =
      averager_->after_epoch(exec_, end->epochs, own, goodness(metric_of(config_.loss.name).name, row.test_score));
  if (end->epochs == last_epoch()) changed = averager_->settle(exec_, own) || changed;  // all are here
  if (setup_.group.any(changed)) {
    shards_.gather(replica_.parameters);
    evaluate_own(row);
  }
  row.steps = step_at(lot);
  end->saves = due_at(lot, end->epochs);
  if (end->saves) checkpoint_begins(*end->saves);
  end->state = copy_state();
  end->optimizer_steps = optimizer_steps_;
  end->steps = files_.take_steps();
  end->edges = averager_->take_edges();
  end->sums = sums_;
  ++epoch_;
  sums_ = {};
  const double now = seconds_now();
  row.wait_seconds = std::exchange(waited_, 0);
  row.evaluation_seconds = std::exchange(copied_, 0) + now - begin;
  row.seconds = now - std::exchange(epoch_begin_, now);
  evaluation_seconds_ = now - begin;
  files_.post([this, end] { conclude(*end); });
  if (epoch_ < last_epoch()) report_.epoch_begins(epoch_, config_.training.epochs, loader_.steps(), 0);
}

/// Unless a stop does not leave the time: its scores are then unknown.
void FreeTraining::evaluate_own(EpochMetrics& row) {
  const trace::Span span("evaluate", "train");
  ask_to_stop(stop_.reason(evaluation_seconds_));
  row.test_loss = row.test_score = unknown;
  bool whole = goes_on();
  if (!whole) return;
  const Evaluation own = evaluate(exec_, network_, replica_, *setup_.whole_test, setup_.views.get(),
                                  setup_.whole_test->steps(), [&] { return whole = goes_on(); });
  if (!whole) return;
  row.test_loss = own.loss();
  row.test_score = own.score();
}

/// All ranks have come to the end of this epoch, now or long ago.
void FreeTraining::conclude(EpochEnd& end) {
  evaluate_mean(end);
  end.row.seconds = files_.world().largest(end.row.seconds);
  hand_over(end);  // before the disk has its turn
  files_.write_epoch(end.steps, end.row, end.edges);
  if (end.saves) {
    const CheckpointHeader header = header_of(end.row.steps, end.epochs, 0, end.optimizer_steps, &end.row);
    files_.write_checkpoint(*end.saves, header, *end.state, {}, {});
  }
  concluded_ = end.epochs * lots_;
}

/// For report_epochs().
void FreeTraining::hand_over(const EpochEnd& end) {
  const EpochSummary summary = summarise(files_.replicas(), end.epochs, end.sums, end.row);
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_.push_back(summary);
}

void FreeTraining::evaluate_mean(EpochEnd& end) {
  const auto mean_of = [this](HostVector<const float> own) {
    std::vector<float> mean;
    files_.world().together([&] { mean.assign(own.data(), own.data() + own.extent(0)); });
    files_.replicas().mean(HostVector<float>(mean.data(), mean.size()));
    return mean;
  };
  const std::vector<float> parameters = mean_of(end.state->state.parameters);
  const std::vector<float> statistics = mean_of(end.state->state.statistics);
  double squares = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double difference = static_cast<double>(end.state->state.parameters(i)) - parameters[i];
    squares += difference * difference;
  }
  end.row.consensus_distance = std::sqrt(files_.world().sum(squares) / ranks_);
  Evaluation part{{}, metric_of(config_.loss.name)};
  const auto evaluate_part = [&] {
    const double begin = seconds_now();
    const Replica& mean = setup_.mean;
    Kokkos::deep_copy(shards_.of(mean.parameters), HostVector<const float>(parameters.data(), parameters.size()));
    Kokkos::deep_copy(mean.statistics, HostVector<const float>(statistics.data(), statistics.size()));
    shards_.gather(mean.parameters);
    if (goes_on()) {
      static_cast<ScoreSums&>(part) = evaluate(exec_, network_, mean, *setup_.shared_test, setup_.views.get(),
                                               setup_.shared_test->steps(), [this] { return goes_on(); });
    }
    end.row.evaluation_seconds += seconds_now() - begin;
  };
  files_.world().together([&] { kernels_.borrow(evaluate_part); });
  const Evaluation all = over_ranks(part, files_.replicas());
  const bool whole = all.images == static_cast<double>(setup_.test_set->size());
  end.row.mean_model_loss = whole ? all.loss() : unknown;
  end.row.mean_model_score = whole ? all.score() : unknown;
}

// All of it -----------------------------------------------------------------------------------------------------------

TrainingResult FreeTraining::run() {
  if (epoch_ == last_epoch()) return evaluate_only();
  TrainingResult result;
  loader_.start_dealing([this] { return deck_.draw(); });
  report_.epoch_begins(epoch_, config_.training.epochs, loader_.steps(), step_in_epoch_);
  const auto next_batch = [this] {
    const trace::Span span("data", "data");
    return loader_.next();
  };
  for (;;) {
    const double begin = seconds_now();
    const Batch* batch = next_batch();
    if (batch == nullptr) break;
    const double data_seconds = seconds_now() - begin, deck_seconds = deck_.wait_seconds();
    const double dealing_seconds = std::min(data_seconds, deck_seconds - std::exchange(deck_seconds_, deck_seconds));
    pass_cuts(batch->number);
    train_lot(*batch, data_seconds, dealing_seconds);
    lend_kernels();
    report_epochs(result);
    look_after_files();
    mark_overdue_checkpoint();
    ask_to_stop(stop_.reason(2 * step_seconds_));
  }
  const std::int64_t end = deck_.limit();
  pass_cuts(end - 1);
  wait_for_all();
  const StopReason reason = asked_by_any();
  if (reason == StopReason::failure) stop_.end_failed(world_);
  const bool whole = reason == StopReason::none && end == last_epoch() * lots_;
  whole ? pass_cuts(end) : save_at(end, CheckpointPlace::run_folder);
  catch_up(0);
  files_.finish();
  report_epochs(result);
  if (whole) {
    result.stopped = to_string(asked_by_any());  // while the last epoch was evaluated
  } else {
    stopped(reason, place_of(end), epoch_, result);
  }
  finish(result, step_at(end));
  return result;
}

TrainingResult FreeTraining::evaluate_only() {
  TrainingResult result;
  report_.line("Nothing is left to train: training.epochs = " + std::to_string(config_.training.epochs) + " are done");
  auto end = std::make_shared<EpochEnd>();
  evaluate_own(end->row);
  end->state = files_.copy(replica_, optimizer_, shards_, {}, {});
  files_.post([this, end] {
    evaluate_mean(*end);
    hand_over(*end);
  });
  catch_up(0);
  files_.finish();
  result.stopped = to_string(asked_by_any());
  for (const EpochSummary& summary : ended_) result.last = summary;
  result.last.train_loss = unknown;
  finish(result, start_.header.step);
  return result;
}

/// Collective.
StopReason FreeTraining::asked_by_any() const {
  return static_cast<StopReason>(world_.largest(static_cast<int>(asked_)));
}

/// All have done their last lot, and nothing is under way between them any more.
void FreeTraining::wait_for_all() {
  const double begin = seconds_now();
  comm_.barrier();
  settle();
  waited_ += seconds_now() - begin;
}

void FreeTraining::report_epochs(TrainingResult& result) {
  std::vector<EpochSummary> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended = std::exchange(ended_, {});
  }
  for (const EpochSummary& summary : ended) end_epoch(summary, result);
}

}  // namespace

std::unique_ptr<Training> make_free_training(TrainingSetup& setup, Report& report, const TrainOptions& options) {
  return std::make_unique<FreeTraining>(setup, report, options);
}

}  // namespace halograd
