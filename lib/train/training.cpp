#include "train/training.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "averagers/codec_table.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "kernels/random.hpp"
#include "kernels/region.hpp"
#include "optimizers/schedule.hpp"
#include "run/training_choices.hpp"
#include "support/seconds.hpp"
#include "support/text.hpp"
#include "support/trace.hpp"
#include "train/host_batch.hpp"
#include "train/model.hpp"
#include "window/group_window.hpp"

namespace halograd {
namespace {

/// Collective.
RunStart start_of(const TrainingSetup& setup, const RunFolder& folder, const TrainOptions& options, Report& report) {
  RunStart start = find_start(setup.world, folder, options.resume, report);
  if (options.resume) {
    take_up_local_copies(start, setup.world, setup.config, folder, *setup.network, report);
  }
  return start;
}

constexpr double slow_disk = 100e6;  // bytes per second

std::string number(std::int64_t value) {
  return std::to_string(value);
}

/// Lengths alone do not tell: other networks may have as many parameters, other optimizers as many buffers.
void require_same_model(const RunConfig& before, const RunConfig& config, const std::string& path) {
  const NetworkConfig &old = before.network, &asked = config.network;
  HALOGRAD_REQUIRE(old.name == asked.name, "checkpoint ", path, " holds the network '", old.name,
                   "', but the run file describes '", asked.name, "'");
  const auto differ = std::mismatch(old.layers.begin(), old.layers.end(), asked.layers.begin(), asked.layers.end());
  HALOGRAD_REQUIRE(old == asked, "checkpoint ", path, " holds a network '", old.name,
                   "' that differs from the run file's: ",
                   differ.first == old.layers.end() ? "it has no layer '" + differ.second->name + "'"
                                                    : "its layer '" + differ.first->name + "' is different");
  HALOGRAD_REQUIRE(before.optimizer.name == config.optimizer.name, "checkpoint ", path,
                   " holds the state of the optimizer '", before.optimizer.name, "', but the run file asks for '",
                   config.optimizer.name, "'");
}

std::string averaging(const RunConfig& config) {
  std::string title = title_of(config.averager);
  if (row_of(config.averager).graphs == Graphs::none) return title;
  return title + (config.averager.overlap ? " overlap" : "") + " on " +
         (row_of(config.topology).from_file ? config.topology.file : config.topology.kind) +
         (is_coded(config.averager) ? " with codec " + config.averager.codec : "");
}

ExistingRun existing_run(const TrainOptions& options) {
  if (options.overwrite) return ExistingRun::overwrite;
  return options.resume ? ExistingRun::set_aside : ExistingRun::refuse;
}

}  // namespace

// Begin or resume -----------------------------------------------------------------------------------------------------

Training::Training(TrainingSetup& setup, Report& report, const TrainOptions& options)
    : setup_(setup),
      config_(setup.config),
      world_(setup.world),
      comm_(setup.comm),
      network_(*setup.network),
      optimizer_(*setup.optimizer),
      loader_(*setup.loader),
      replica_(setup.replica),
      shards_(setup.group, network_.space(), network_.parameter_count()),
      report_(report),
      options_(options),
      injector_(config_.comm.inject),
      guard_(network_, replica_),
      view_gradients_("halograd::view_gradients", setup.views ? network_.parameter_count() : 0),
      folder_(world_, config_, report),
      start_(start_of(setup, folder_.folder(), options, report)),
      own_steps_(start_.header.step),
      optimizer_steps_(start_.header.optimizer_steps),
      epoch_(start_.header.epoch),
      sums_(restore()),
      // Epochs are dealt in the same order on every number of ranks: only the size of a step can move the position.
      step_in_epoch_(std::min<std::int64_t>(start_.images_of_epoch() / config_.training.batch, loader_.steps())),
      averager_(start_averager()),
      progress_(row_of(config_.averager).exchanges == Exchange::nothing
                    ? nullptr
                    : make_progress_thread(config_.comm, comm_, comm_.nodes(), setup.halos.memory)),
      files_(world_, setup.group, config_, folder_, network_, optimizer_, existing_run(options), start_),
      stop_(config_.training.time_limit,
            4 * static_cast<double>(network_.parameter_count() * (1 + optimizer_.state().size())) * comm_.ranks() /
                slow_disk),
      sent_before_(averager_->bytes_sent()) {
  if (progress_) {
    report_.line("A thread of each rank keeps transfers going while the rank computes, every " +
                 number(config_.comm.progress_us) + " us (comm.progress_us)");
  }
  if (!stop_.limit().empty()) report_.line("The run stops with a checkpoint before its time limit: " + stop_.limit());
}

/// Collective. Gives the replica and the optimizer what the run starts with; returns what the checkpoint had added up
/// of an unfinished epoch.
EpochSums Training::restore() {
  const std::string& checkpoint = start_.checkpoint;
  if (checkpoint.empty()) {
    if (!options_.init.empty()) world_.together([&] { load_mean(options_.init, replica_); });
    if (options_.resume) {
      report_.line("No checkpoint in " + folder_.folder().path + " yet: starting from the beginning");
    }
    return {};
  }
  const CheckpointHeader& header = start_.header;
  world_.together([&] {
    HALOGRAD_REQUIRE(header.epoch <= config_.training.epochs, "checkpoint ", checkpoint, " holds the state after ",
                     header.epoch, " epochs, more than training.epochs = ", config_.training.epochs);
    require_same_model(start_.before, config_, checkpoint);
  });
  const bool reset = resets_optimizer(config_.training);
  const EpochSums sums = read_state(comm_, start_, reset, replica_, optimizer_, shards_);
  if (reset && header.ranks != comm_.ranks()) optimizer_steps_ = 0;
  const std::int64_t batch = config_.training.batch, batch_before = start_.before.training.batch;
  report_.line("Resumed from " + checkpoint + ": " + number(epoch_) + " epochs" +
               (header.step_in_epoch > 0 ? " and " + number(start_.images_of_epoch() / batch) + " steps, " : ", ") +
               number(start_.header.step) + " steps in total");
  if (header.ranks != comm_.ranks()) {
    const std::string what = setup_.group.ranks() == 1 ? " ranks" : " replicas";
    report_.line("NOTE: the checkpoint is from a run on " + number(header.ranks) + what + ", but this job has " +
                 number(comm_.ranks()) + ": all replicas start from the mean of those " + number(header.ranks) +
                 ", and the optimizer's state " + (reset ? "from zero" : "from the mean of their states"));
    if (header.step_in_epoch > 0 && loader_.deals_by_ranks()) {
      report_.line("NOTE: data.shuffle deals by the number of" + what +
                   ": what is left of the epoch is dealt anew, "
                   "and some of its images are seen twice, others not");
    }
  }
  if (batch_before != batch) {
    report_.line("NOTE: training.batch was " + number(batch_before) + " and is " + number(batch) +
                 ": the epoch continues at image " + number(start_.images_of_epoch() / batch * batch) +
                 " of its order, after " + number(start_.images_of_epoch()));
  }
  if (averaging(start_.before) != averaging(config_)) {
    report_.line("NOTE: the averager was " + averaging(start_.before) + " and is " + averaging(config_));
  }
  return sums;
}

/// Collective.
std::unique_ptr<Averager> Training::start_averager() {
  AveragerContext context{config_.averager, setup_.comm_config(), *setup_.topology, comm_, shards_.length(),
                          own_steps_};
  for (const Buffer<float>& state : optimizer_.state()) context.optimizer_state.push_back(state);
  context.optimizer_step = [this](const ExecutionSpace& exec, Vector<float> weights, Vector<const float> gradient) {
    const std::int64_t count = std::max<std::int64_t>(1, optimizer_steps_);  // 0: between a restart and a step
    optimizer_.step(exec, rate_, count, 0, weights, gradient);
  };
  context.restart_optimizer = [this](const ExecutionSpace& exec) {
    for (const Buffer<float>& state : optimizer_.state()) Kokkos::deep_copy(exec, state, 0.0F);
    optimizer_steps_ = 0;
  };
  context.halo_memory = setup_.halos.memory;
  context.first_epoch = epoch_;
  context.last_step = own_steps_ + (last_epoch() - epoch_) * loader_.steps() - step_in_epoch_ - 1;
  context.group = setup_.group.group();
  std::unique_ptr<Averager> averager = make_averager(context);
  if (start_.checkpoint.empty()) return averager;
  const std::string dropped = restore_averager(*averager);
  if (!dropped.empty()) report_.line("NOTE: the averager's own state starts anew: " + dropped);
  return averager;
}

/// Collective. Why the checkpoint's state of the averager is not taken over; empty where it is, or where there is none.
std::string Training::restore_averager(Averager& averager) {
  const std::vector<SavedState> state = shards_.named(averager.state());
  const std::vector<StateLayout> all = shards_.layout(averager.state());
  std::string difference;
  comm_.together([&] {
    if (comm_.rank() == 0) difference = averager_state_difference(start_.checkpoint, all);
  });
  difference = comm_.broadcast(difference);
  const bool same_ranks = start_.header.ranks == comm_.ranks();
  if (difference.empty() && same_ranks && averaging(start_.before) == averaging(config_)) {
    read_averager_state(comm_, start_.checkpoint, state);
    averager.restored();
    return "";
  }
  if (!difference.empty() || state.empty()) return difference;
  return same_ranks ? "it belongs to a different averager" : "it belongs to a different number of ranks";
}

std::int64_t Training::last_epoch() const {
  const std::int64_t epochs = config_.training.epochs;
  return options_.stop_after > 0 ? std::min(epochs, start_.header.epoch + options_.stop_after) : epochs;
}

// Step ----------------------------------------------------------------------------------------------------------------

StepMetrics Training::train_step(const Batch& batch, const StepPlace& place) {
  const trace::Span span("step", "train");
  StepMetrics row;
  const double waited = averager_->wait_seconds();
  const std::int64_t sent = averager_->bytes_sent();
  const double progress = progress_ ? progress_->seconds() : 0;
  const Space* const space = network_.space();
  const auto group_waits = [space] { return space != nullptr ? space->window().wait_seconds() : 0; };
  const double waited_in_group = group_waits();
  const std::int64_t sent_in_group = space != nullptr ? space->window().bytes_sent() : 0;
  rate_ = config_.optimizer.learning_rate * schedule_factor(config_.schedule, epoch_ * loader_.steps() + place.of_epoch,
                                                            loader_.steps(), config_.training.epochs);
  const std::uint64_t step_key = random_bits(config_.training.seed, static_cast<std::uint64_t>(place.step));

  const double begin = seconds_now();
  {
    const Region region("exchange");
    averager_->before_gradient(exec_, own_steps_, shards_.of(replica_.parameters));
  }
  const double exchanged = seconds_now();
  const double early_wait = averager_->wait_seconds() - waited;
  const std::uint64_t random_key = random_bits(step_key, static_cast<std::uint64_t>(place.lane));
  guard_.keep(exec_);
  const double share = static_cast<double>(batch.size) / batch.global_size;
  // The mean of the replicas is to move by the gradient of the whole batch, sum_i share_i g_i.
  const bool uneven = shares_by_speed(config_.training) && !row_of(config_.averager).shares_gradients;
  const double own_rate = uneven ? rate_ * share * comm_.ranks() : rate_;
  const LossSum loss = compute_gradient(batch, random_key, share);
  injector_.slow_down(comm_.rank(), seconds_now() - exchanged);
  const bool finite = guard_.finite(exec_, loss.loss);
  if (!finite) leave_out(batch, random_key);
  const double computed = seconds_now(), waited_computing = group_waits() - waited_in_group;
  ++optimizer_steps_;
  update(own_rate, finite, share);
  const double updated = seconds_now();
  ++own_steps_;

  row.loss = loss.loss / batch.size;
  row.skipped = finite ? 0 : 1;
  row.averaging_period = averager_->period();
  row.learning_rate = rate_;
  row.wait_seconds = averager_->wait_seconds() - waited;
  const double group_wait = group_waits() - waited_in_group;
  row.compute_seconds = computed - exchanged - waited_computing;
  row.update_seconds = (exchanged - begin - early_wait) + (updated - computed - (row.wait_seconds - early_wait)) -
                       (group_wait - waited_computing);
  const std::int64_t group_bytes = space != nullptr ? space->window().bytes_sent() - sent_in_group : 0;
  group_bytes_ += group_bytes;
  row.wait_seconds += group_wait;
  row.bytes_sent = averager_->bytes_sent() - sent + group_bytes;
  if (progress_) row.progress_seconds = progress_->seconds() - progress;
  return row;
}

LossSum Training::compute_gradient(const Batch& batch, std::uint64_t random_key, double share) {
  const trace::Span span("compute", "train");
  Network::GradientReady ready;
  if (!network_.replays_steps()) {
    ready = [this, share](std::size_t from) {
      const Region region("exchange");
      averager_->gradient_ready(exec_, shards_.of(replica_.gradients), from, share);
    };
  }
  const LossSum loss = setup_.views ? compute_gradient_of_views(batch, random_key)
                                    : network_.train(exec_, replica_, host_batch(&batch), random_key, ready,
                                                     host_batch(loader_.ahead()));
  if (network_.replays_steps() && !network_.replay_refusal().empty()) {
    report_.line("  steps could not be recorded and continue kernel by kernel: " + network_.replay_refusal());
    network_.replay_steps(false);
  }
  return loss;
}

/// The mean gradient over the fields of view of a batch of images; its loss is scaled to one for each image.
LossSum Training::compute_gradient_of_views(const Batch& batch, std::uint64_t random_key) {
  LossSum sum;
  Kokkos::deep_copy(exec_, view_gradients_, 0.0F);
  const long shown = setup_.views->show(batch, [&](const Batch& views, std::span<float> logits) {
    sum.loss += network_.train(exec_, replica_, host_batch(&views), random_key, {}, {}, logits).loss;
    mix(exec_, {1, 1, {static_cast<double>(views.size)}, {replica_.gradients.data()}}, view_gradients_);
    return std::isfinite(sum.loss);
  });
  scale(exec_, 1 / static_cast<double>(shown), view_gradients_);
  Kokkos::deep_copy(exec_, replica_.gradients, view_gradients_);
  sum.loss *= batch.size / static_cast<double>(shown);
  return sum;
}

/// Takes back a step whose loss or gradient is not finite; counts it, or has all ranks stop, as configured.
void Training::leave_out(const Batch& batch, std::uint64_t random_key) {
  const std::string where =
      guard_.take_back(exec_, setup_.views ? setup_.views->last() : batch,
                       config_.data.path.empty() ? config_.data.format : config_.data.path, random_key);
  ++skipped_;
  if (skips_non_finite(config_.training)) return;
  stop_.not_finite("step " + number(own_steps_ + 1) + ", rank " + number(world_.rank()) + ": " + where +
                   " is not finite (a smaller optimizer.learning_rate or a longer schedule.warmup_epochs may help; "
                   "training.non_finite = \"skip\" continues without such updates)");
}

void Training::update(double rate, bool finite, double share) {
  const trace::Span span("update", "train");
  const Region region("exchange");  // what the averager does around the optimizer's step
  // With shared gradients all ranks make the same step, whoever's part is missing, or none where all are.
  const bool steps = finite || row_of(config_.averager).shares_gradients;
  const auto optimize = [&](std::size_t begin, std::size_t length) {
    if (!steps) return;
    const Region optimizer("update");
    optimizer_.step(exec_, rate, optimizer_steps_, begin, slice(shards_.of(replica_.parameters), begin, length),
                    slice(shards_.of(replica_.gradients), begin, length));
  };
  averager_->update(exec_, own_steps_, shards_.of(replica_.parameters), shards_.of(replica_.gradients),
                    finite ? share : 0, std::ref(optimize));
  exec_.fence();
  shards_.gather(replica_.parameters);
}

void Training::count(const StepMetrics& row, const Batch& batch, const StepPlace& place, double seconds) {
  if (row.skipped == 0) {
    sums_.loss += row.loss * batch.size;
    sums_.images += batch.size;
  }
  sums_.training_seconds += seconds;
  sums_.wait_seconds += row.wait_seconds;
  files_.add_step(row, {place.step, place.lane});
}

// Save ----------------------------------------------------------------------------------------------------------------

void Training::settle() {
  averager_->settle(exec_, shards_.of(replica_.parameters));
  shards_.gather(replica_.parameters);
}

void Training::save_state(CheckpointPlace place, const CheckpointHeader& header) {
  checkpoint_begins(place);
  settle();
  files_.save(place, header, replica_, optimizer_, shards_, averager_->state(), sums_, stop_.failure());
}

std::optional<CheckpointPlace> Training::due_after(std::int64_t steps, std::int64_t epochs) const {
  const OutputConfig& output = config_.output;
  const auto is_due = [](std::int64_t done, int every) { return every > 0 && done > 0 && done % every == 0; };
  const bool last = (output.checkpoint_epochs > 0 || options_.stop_after > 0) && epochs == last_epoch();
  if (last || is_due(epochs, output.checkpoint_epochs) || is_due(steps, output.checkpoint_steps)) {
    return CheckpointPlace::run_folder;
  }
  if (is_due(steps, output.local_steps)) return CheckpointPlace::nodes;
  return {};
}

bool Training::checkpoint_overdue() const {
  const double minutes = config_.output.checkpoint_minutes;
  return minutes > 0 && seconds_now() - last_saved_ >= 60 * minutes;
}

void Training::checkpoint_begins(CheckpointPlace place) {
  if (place == CheckpointPlace::run_folder) last_saved_ = seconds_now();
}

CheckpointHeader Training::header_of(std::int64_t step, std::int64_t epoch, std::int64_t step_in_epoch,
                                     std::int64_t optimizer_steps, const EpochMetrics* scores) const {
  CheckpointHeader header;
  if (scores != nullptr) {
    header.metric = metric_of(config_.loss.name).name;
    header.mean_model_score = scores->mean_model_score;
    header.mean_model_loss = scores->mean_model_loss;
  }
  header.step = step;
  header.epoch = epoch;
  header.step_in_epoch = step_in_epoch;
  header.optimizer_steps = optimizer_steps;
  header.network = config_.network.name;
  header.averager = title_of(config_.averager);
  header.topology = setup_.topology->kind();
  header.versions = options_.versions;
  header.input = to_string(input_of(config_, setup_.train_set->whole_shape()));
  return header;
}

void Training::look_after_files() {
  const Failure failure = files_.error();
  if (!failure.message.empty()) stop_.fail(failure);
  const std::string local_failure = files_.local_failure();
  if (!local_failure.empty()) report_.line("  no copies on the nodes: " + local_failure);
  for (const WrittenCheckpoint& checkpoint : files_.written()) {
    stop_.checkpoint_took(checkpoint.seconds);
    if (config_.output.checkpoint_steps == 0 && config_.output.checkpoint_minutes == 0) continue;
    report_.line("  checkpoint " + checkpoint.path + ", " + human_bytes(checkpoint.bytes) + " in " +
                 number(std::lround(1000 * checkpoint.seconds)) + " ms");
  }
}

EpochSummary Training::summarise(const Communicator& comm, std::int64_t epochs_done, const EpochSums& sums,
                                 const EpochMetrics& row) const {
  EpochSummary summary;
  summary.epoch = epochs_done;
  summary.epochs = config_.training.epochs;
  summary.metric = metric_of(config_.loss.name).name;
  summary.images = comm.sum(sums.images);
  summary.train_loss = comm.sum(sums.loss) / summary.images;
  summary.mean_model_loss = row.mean_model_loss;
  summary.score_lowest = comm.smallest(row.test_score);
  summary.score_highest = comm.largest(row.test_score);
  summary.mean_model_score = row.mean_model_score;
  summary.consensus_distance = row.consensus_distance;
  summary.training_seconds = comm.largest(sums.training_seconds);
  summary.wait_share = comm.sum(sums.wait_seconds) / comm.sum(sums.training_seconds);
  summary.seconds = comm.largest(row.seconds);
  return summary;
}

std::string Training::position(const StepPlace& place, std::int64_t epoch) const {
  return "epoch " + number(epoch + 1) + ", step " + number(place.of_epoch) + " of " + number(loader_.steps()) + " (" +
         number(place.step) + " steps in total)";
}

void Training::stopped(StopReason reason, const StepPlace& place, std::int64_t epoch, TrainingResult& result) {
  const std::string checkpoint = folder_.folder().checkpoint(place.step);
  stop_.end_not_finite(world_, checkpoint);
  result.stopped = to_string(reason);
  report_.line("Stopped by " + result.stopped + " after " + position(place, epoch) + "; the checkpoint is " +
               checkpoint);
}

void Training::end_epoch(const EpochSummary& summary, TrainingResult& result) {
  report_.epoch_ends(summary);
  result.last = summary;
  result.seconds += summary.seconds;
  totals_.images += summary.images;
  totals_.training_seconds += summary.training_seconds;
  totals_.waited += summary.wait_share * summary.training_seconds;
}

void Training::finish(TrainingResult& result, std::int64_t steps) {
  files_.close();
  look_after_files();
  result.epochs = epoch_;
  result.steps = steps;
  const double seconds = totals_.training_seconds;
  result.images_per_second = seconds > 0 ? totals_.images / seconds : 0;
  result.wait_share = seconds > 0 ? totals_.waited / seconds : 0;
  const auto made = static_cast<double>(std::max<std::int64_t>(1, steps - start_.header.step));
  result.bytes_sent =
      comm_.sum(static_cast<double>(averager_->bytes_sent() - sent_before_ + group_bytes_)) / (made * comm_.ranks());
  result.skipped = comm_.sum(skipped_);
  const RunFolder& folder = folder_.folder();
  result.checkpoint = folder.holds_checkpoint() ? folder.newest() : "";
  result.metrics = folder.metrics();
  result.config = folder.config();
}

}  // namespace halograd
