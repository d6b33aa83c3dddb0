#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "averagers/averager.hpp"
#include "averagers/codec_table.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "kernels/random.hpp"
#include "mpi/node_group.hpp"
#include "nn/precisions.hpp"
#include "optimizers/schedule.hpp"
#include "run/training_choices.hpp"
#include "run/write.hpp"
#include "support/memory.hpp"
#include "support/seconds.hpp"
#include "support/text.hpp"
#include "support/trace.hpp"
#include "train/evaluation.hpp"
#include "train/finite_guard.hpp"
#include "train/host_batch.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"
#include "train/run_files.hpp"
#include "train/start_facts.hpp"
#include "train/stop.hpp"
#include "train/tracing.hpp"
#include "window/injector.hpp"
#include "window/progress_thread.hpp"

namespace halograd {

// ---------------------------------------------------------------------------------------------------------------------
// Set up: data, model, topology. No file of the run is touched yet.
// ---------------------------------------------------------------------------------------------------------------------

namespace {

void open_data(TrainingSetup& setup) {
  const RunConfig& config = setup.config;
  const Communicator& comm = setup.comm;
  const Warn warn = node_warning(comm);
  setup.train_set = open_dataset(config.data, Split::train, config.training.seed, warn);
  setup.test_set = open_dataset(config.data, Split::test, config.training.seed, warn);
  const Dataset &train_set = *setup.train_set, &test_set = *setup.test_set;
  HALOGRAD_REQUIRE(train_set.shape() == test_set.shape() && test_set.classes() <= train_set.classes(), "data at ",
                   config.data.path, ": the training images have shape ", to_string(train_set.shape()), " and ",
                   train_set.classes(), " classes, the test images ", to_string(test_set.shape()), " and ",
                   test_set.classes(), "; expected the same shape and no additional classes");
  LoaderOptions options;
  options.global_batch = config.training.batch;
  options.rank = comm.rank();
  options.ranks = comm.ranks();
  options.seed = config.training.seed;
  options.prefetch = config.data.prefetch;
  if (shares_by_speed(config.training)) {
    options.most = 2L * ((options.global_batch + options.ranks - 1) / options.ranks);
  }
  setup.loader = std::make_unique<Loader>(train_set, config.data, options);
  const int largest = setup.loader->largest_batch();
  options.training = false;
  options.most = 0;
  options.global_batch = largest * comm.ranks();
  setup.shared_test = std::make_unique<Loader>(test_set, config.data, options);
  options.global_batch = largest;
  options.rank = 0;
  options.ranks = 1;
  setup.whole_test = std::make_unique<Loader>(test_set, config.data, options);
}

void make_model(TrainingSetup& setup) {
  RunConfig& config = setup.config;
  setup.network = build_model(config, *setup.train_set, setup.loader->largest_batch());
  Network& network = *setup.network;
  config.network = network.config();
  network.compute_in(precision_named(config.training.precision));
  const bool called_during = row_of(config.averager).beside_gradient && setup.comm.ranks() > 1;
  network.replay_steps(records_steps(config.training) && !called_during);
  const auto parameters = static_cast<double>(network.parameter_count());
  const auto states = static_cast<double>(make_optimizer(config.optimizer, 0)->state().size());
  require_kernel_memory(
      sizeof(float) * parameters * (3 + states),
      "parameters, gradients and mean model of " + config.network.name + " and the state of " + config.optimizer.name);
  setup.optimizer = make_optimizer(config.optimizer, network.parameter_count());
  setup.replica = network.make_replica(config.training.seed);
  setup.mean.parameters = Buffer<float>("halograd::mean_parameters", network.parameter_count());
  setup.mean.statistics = Buffer<float>("halograd::mean_statistics", network.statistic_count());
}

}  // namespace

TrainingSetup::TrainingSetup(const RunConfig& run_file, const Communicator& communicator)
    : config(run_file), comm(communicator) {
  comm.require_same(to_toml(config), "run file");
  const bool of_nodes = row_of(config.averager).of_nodes;
  const int nodes = of_nodes ? node_group(comm, config.comm.ranks_per_node).nodes : 0;
  comm.together([&] {
    const int slow_rank = config.comm.inject.slow_rank;
    HALOGRAD_REQUIRE(slow_rank < comm.ranks(), "comm.inject.slow_rank is ", slow_rank, ", expected a rank below ",
                     comm.ranks());
    open_data(*this);
    make_model(*this);
    topology = std::make_unique<Topology>(of_nodes ? make_topology(config.topology, nodes)
                                                   : make_topology(config.topology, comm.ranks(), comm.node_of_rank()));
  });
  // A rank's share of a batch, and so the size and number of its test batches, may differ from its neighbour's.
  whole_batches = comm.largest(whole_test->steps());
  shared_batches = comm.largest(shared_test->steps());
  if (may_use_device_windows(config.averager, topology->dynamic() != nullptr)) {
    halos = choose_halo_place(config.comm, *topology, comm, network->parameter_count());
  }
}

StartFacts Trainer::facts() const {
  return start_facts(setup_);
}

// ---------------------------------------------------------------------------------------------------------------------
// One call of the program: begin or resume, then epoch after epoch of steps, an evaluation, a checkpoint.
// ---------------------------------------------------------------------------------------------------------------------

namespace {

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

class Training {
 public:
  /// Collective. Takes the run folder for this job, and begins a run there or resumes the one it holds.
  Training(TrainingSetup& setup, Report& report, const TrainOptions& options);

  /// Collective.
  TrainingResult run();

 private:
  struct Speed {
    double images = 0, seconds = 0;
  };

  // Begin or resume
  EpochSums restore();
  std::unique_ptr<Averager> start_averager();
  std::string restore_averager(Averager& averager);
  // Step
  StepMetrics train_step(const Batch& batch);
  LossSum compute_gradient(const Batch& batch, std::uint64_t random_key, double share);
  void leave_out(const Batch& batch, std::uint64_t random_key);
  void update(double rate, bool finite, double share);
  // Epoch
  StopReason train_epoch();
  void share_by_speed();
  EpochSummary finish_epoch(const EpochMetrics& row, bool last);
  [[nodiscard]] EpochSummary summarise(const EpochMetrics& row) const;
  // Evaluate
  StopReason evaluate_epoch(EpochMetrics& row);
  // Save
  [[nodiscard]] bool checkpoint_is_due() const;
  void save(CheckpointHeader header);
  void look_after_files();
  [[nodiscard]] std::string position() const;

  TrainingSetup& setup_;
  const RunConfig& config_;
  const Communicator& comm_;
  Network& network_;
  Optimizer& optimizer_;
  Loader& loader_;
  const Replica& replica_;
  Report& report_;
  TrainOptions options_;
  ExecutionSpace exec_;
  Injector injector_;
  FiniteGuard guard_;

  ClaimedFolder folder_;
  RunStart start_;
  std::int64_t step_;           ///< steps done
  std::int64_t epoch_;          ///< whole epochs done
  EpochSums sums_;              ///< of the epoch after these
  std::int64_t step_in_epoch_;  ///< steps done of it
  std::unique_ptr<Averager> averager_;
  std::unique_ptr<ProgressThread> progress_;  ///< null where none is needed
  RunFiles files_;
  Stop stop_;

  double rate_ = 0;                ///< learning rate of the step
  Speed speed_;                    ///< of this rank's computing since shares were measured
  std::int64_t skipped_ = 0;       ///< updates of this rank that were left out in this call
  double evaluation_seconds_ = 0;  ///< of the last epoch
};

// Begin or resume -----------------------------------------------------------------------------------------------------

Training::Training(TrainingSetup& setup, Report& report, const TrainOptions& options)
    : setup_(setup),
      config_(setup.config),
      comm_(setup.comm),
      network_(*setup.network),
      optimizer_(*setup.optimizer),
      loader_(*setup.loader),
      replica_(setup.replica),
      report_(report),
      options_(options),
      injector_(config_.comm.inject),
      guard_(network_, replica_),
      folder_(comm_, config_, report),
      start_(find_start(comm_, folder_.folder(), options.resume, report)),
      step_(start_.header.step),
      epoch_(start_.header.epoch),
      sums_(restore()),
      // Epochs are dealt in the same order on every number of ranks: only the size of a step can move the position.
      step_in_epoch_(std::min<std::int64_t>(start_.images_of_epoch() / config_.training.batch, loader_.steps())),
      averager_(start_averager()),
      progress_(row_of(config_.averager).exchanges == Exchange::nothing
                    ? nullptr
                    : make_progress_thread(config_.comm, comm_, comm_.nodes(), setup.halos.memory)),
      files_(comm_, config_, folder_, network_, optimizer_, existing_run(options), start_),
      stop_(comm_, config_.training.time_limit,
            4 * static_cast<double>(network_.parameter_count() * (1 + optimizer_.state().size())) * comm_.ranks() /
                slow_disk) {
  if (progress_) {
    report_.line("This MPI progresses one-sided transfers only inside MPI calls; a helper thread polls it every " +
                 number(config_.comm.progress_us) + " us (comm.progress_us)");
  }
  if (!stop_.limit().empty()) report_.line("The run stops with a checkpoint before its time limit: " + stop_.limit());
}

/// Collective. Gives the replica and the optimizer what the run starts with; returns what the checkpoint had added up
/// of an unfinished epoch.
EpochSums Training::restore() {
  const std::string& checkpoint = start_.checkpoint;
  if (checkpoint.empty()) {
    if (!options_.init.empty()) comm_.together([&] { load_mean(options_.init, replica_); });
    if (options_.resume) {
      report_.line("No checkpoint in " + folder_.folder().path + " yet: starting from the beginning");
    }
    return {};
  }
  const CheckpointHeader& header = start_.header;
  comm_.together([&] {
    HALOGRAD_REQUIRE(header.epoch <= config_.training.epochs, "checkpoint ", checkpoint, " holds the state after ",
                     header.epoch, " epochs, more than training.epochs = ", config_.training.epochs);
    require_same_model(start_.before, config_, checkpoint);
  });
  const bool reset = resets_optimizer(config_.training);
  const EpochSums sums = read_state(comm_, start_, reset, replica_, optimizer_);
  const std::int64_t batch = config_.training.batch, batch_before = start_.before.training.batch;
  report_.line("Resumed from " + checkpoint + ": " + number(epoch_) + " epochs" +
               (header.step_in_epoch > 0 ? " and " + number(start_.images_of_epoch() / batch) + " steps, " : ", ") +
               number(step_) + " steps in total");
  if (header.ranks != comm_.ranks()) {
    report_.line("NOTE: the checkpoint is from a run on " + number(header.ranks) + " ranks, but this job has " +
                 number(comm_.ranks()) + ": all replicas start from the mean of those " + number(header.ranks) +
                 ", and the optimizer's state " + (reset ? "from zero" : "from the mean of their states"));
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
  AveragerContext context{config_.averager, config_.comm, *setup_.topology, comm_, network_.parameter_count(), step_};
  for (const Buffer<float>& state : optimizer_.state()) context.optimizer_state.emplace_back(state);
  context.optimizer_step = [this](const ExecutionSpace& exec, Vector<float> weights, Vector<const float> gradient) {
    optimizer_.step(exec, rate_, step_ + 1, 0, weights, gradient);
  };
  context.halo_memory = setup_.halos.memory;
  std::unique_ptr<Averager> averager = make_averager(context);
  if (start_.checkpoint.empty()) return averager;
  const std::string dropped = restore_averager(*averager);
  if (!dropped.empty()) report_.line("NOTE: the averager's own state starts anew: " + dropped);
  return averager;
}

/// Collective. Why the checkpoint's state of the averager is not taken over; empty where it is, or where there is none.
std::string Training::restore_averager(Averager& averager) {
  const std::vector<SavedState> state = averager.state();
  std::string difference;
  comm_.together([&] {
    if (comm_.rank() == 0) difference = averager_state_difference(start_.checkpoint, state);
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

// Step ----------------------------------------------------------------------------------------------------------------

StepMetrics Training::train_step(const Batch& batch) {
  const trace::Span span("step", "train");
  StepMetrics row;
  const double waited = averager_->wait_seconds();
  const std::int64_t sent = averager_->bytes_sent();
  const double progress = progress_ ? progress_->seconds() : 0;
  rate_ = config_.optimizer.learning_rate * schedule_factor(config_.schedule, epoch_ * loader_.steps() + step_in_epoch_,
                                                            loader_.steps(), config_.training.epochs);
  const std::uint64_t step_key = random_bits(config_.training.seed, static_cast<std::uint64_t>(step_));

  const double begin = seconds_now();
  averager_->before_gradient(exec_, step_, replica_.parameters);
  const double exchanged = seconds_now();
  const double early_wait = averager_->wait_seconds() - waited;
  const std::uint64_t random_key = random_bits(step_key, static_cast<std::uint64_t>(comm_.rank()));
  guard_.keep(exec_);
  const double share = static_cast<double>(batch.size) / batch.global_size;
  // The mean of the replicas is to move by the gradient of the whole batch, sum_i share_i g_i.
  const bool uneven = shares_by_speed(config_.training) && !row_of(config_.averager).shares_gradients;
  const double own_rate = uneven ? rate_ * share * comm_.ranks() : rate_;
  const LossSum loss = compute_gradient(batch, random_key, share);
  injector_.slow_down(comm_.rank(), seconds_now() - exchanged);
  const bool finite = guard_.finite(exec_, loss.loss);
  if (!finite) leave_out(batch, random_key);
  const double computed = seconds_now();
  update(own_rate, finite, share);
  const double updated = seconds_now();
  ++step_;

  row.loss = loss.loss / batch.size;
  row.skipped = finite ? 0 : 1;
  row.averaging_period = averager_->period();
  row.learning_rate = rate_;
  row.wait_seconds = averager_->wait_seconds() - waited;
  row.compute_seconds = computed - exchanged;
  row.update_seconds = (exchanged - begin - early_wait) + (updated - computed - (row.wait_seconds - early_wait));
  row.bytes_sent = averager_->bytes_sent() - sent;
  if (progress_) row.progress_seconds = progress_->seconds() - progress;
  return row;
}

LossSum Training::compute_gradient(const Batch& batch, std::uint64_t random_key, double share) {
  const trace::Span span("compute", "train");
  Network::GradientReady ready;
  if (!network_.replays_steps()) {
    ready = [this, share](std::size_t from) { averager_->gradient_ready(exec_, replica_.gradients, from, share); };
  }
  const LossSum loss =
      network_.train(exec_, replica_, host_batch(&batch), random_key, ready, host_batch(loader_.ahead()));
  if (network_.replays_steps() && !network_.replay_refusal().empty()) {
    report_.line("  steps could not be recorded and continue kernel by kernel: " + network_.replay_refusal());
    network_.replay_steps(false);
  }
  return loss;
}

/// Takes back a step whose loss or gradient is not finite; counts it, or has all ranks stop, as configured.
void Training::leave_out(const Batch& batch, std::uint64_t random_key) {
  const std::string where =
      guard_.take_back(exec_, batch, config_.data.path.empty() ? config_.data.format : config_.data.path, random_key);
  ++skipped_;
  if (skips_non_finite(config_.training)) return;
  stop_.not_finite("step " + number(step_ + 1) + ", rank " + number(comm_.rank()) + ": " + where +
                   " is not finite (a smaller optimizer.learning_rate or a longer schedule.warmup_epochs may help; "
                   "training.non_finite = \"skip\" continues without such updates)");
}

void Training::update(double rate, bool finite, double share) {
  const trace::Span span("update", "train");
  // With shared gradients all ranks make the same step, whoever's part is missing.
  const bool steps = finite || row_of(config_.averager).shares_gradients;
  const auto optimize = [&](std::size_t begin, std::size_t length) {
    if (!steps) return;
    optimizer_.step(exec_, rate, step_ + 1, begin, slice(replica_.parameters, begin, length),
                    slice(replica_.gradients, begin, length));
  };
  averager_->update(exec_, step_, replica_.parameters, replica_.gradients, finite ? share : 0, std::ref(optimize));
  exec_.fence();
}

// Epoch ---------------------------------------------------------------------------------------------------------------

/// Trains what is left of the epoch, unless all are to stop before its end.
StopReason Training::train_epoch() {
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
    StepMetrics row = train_step(*batch);
    row.data_seconds = data_seconds;
    const double end = seconds_now();
    row.images_per_second = batch->size / (end - begin);
    if (row.skipped == 0) {
      sums_.loss += row.loss * batch->size;
      sums_.images += batch->size;
    }
    sums_.training_seconds += end - begin;
    speed_.images += batch->size;
    speed_.seconds += row.compute_seconds;
    sums_.wait_seconds += row.wait_seconds;
    begin = end;
    files_.add_step(row);
    ++step_in_epoch_;
    report_.step(step_in_epoch_, row.loss, batch->global_size);
    look_after_files();
    const StopReason reason = stop_.after_step();
    if (reason != StopReason::none) return reason;
    if (checkpoint_is_due() && step_in_epoch_ < loader_.steps()) save(CheckpointHeader());
  }
  return stop_.now(evaluation_seconds_);
}

/// Collective: deals the next epoch's batches by how fast each rank was in the last.
void Training::share_by_speed() {
  const std::vector<double> speeds = comm_.gather(speed_.seconds > 0 ? speed_.images / speed_.seconds : 0);
  speed_ = {};
  const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
  if (*slowest <= 0) return;  // nothing was measured yet
  loader_.set_shares(speeds);
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const auto part = [&](auto at) {
    return number(std::lround(1000 * *at / sum)) + " (rank " + number(at - speeds.begin()) + ")";
  };
  report_.line("  shares of epoch " + number(epoch_ + 1) + " in thousandths of a batch: " + part(slowest) + " to " +
               part(fastest));
}

/// Collective: writes the epoch's metrics and, where one is due, its checkpoint.
EpochSummary Training::finish_epoch(const EpochMetrics& row, bool last) {
  files_.add_epoch(row, averager_->take_edges());
  ++epoch_;
  EpochSummary summary = summarise(row);
  step_in_epoch_ = 0;
  sums_ = {};
  const int every = config_.output.checkpoint_epochs;
  if ((every > 0 && (epoch_ % every == 0 || last)) || checkpoint_is_due()) {
    CheckpointHeader header;
    header.metric = metric_of(config_.loss.name).name;
    header.mean_model_score = row.mean_model_score;
    header.mean_model_loss = row.mean_model_loss;
    save(std::move(header));
  }
  return summary;
}

/// Collective: the epoch over all ranks.
EpochSummary Training::summarise(const EpochMetrics& row) const {
  EpochSummary summary;
  summary.epoch = epoch_;
  summary.epochs = config_.training.epochs;
  summary.metric = metric_of(config_.loss.name).name;
  summary.images = comm_.sum(sums_.images);
  summary.train_loss = comm_.sum(sums_.loss) / summary.images;
  summary.mean_model_loss = row.mean_model_loss;
  summary.score_lowest = comm_.smallest(row.test_score);
  summary.score_highest = comm_.largest(row.test_score);
  summary.mean_model_score = row.mean_model_score;
  summary.consensus_distance = row.consensus_distance;
  summary.training_seconds = comm_.largest(sums_.training_seconds);
  summary.wait_share = comm_.sum(sums_.wait_seconds) / comm_.sum(sums_.training_seconds);
  summary.seconds = comm_.largest(row.seconds);
  return summary;
}

// Evaluate ------------------------------------------------------------------------------------------------------------

/// Collective: the epoch's metrics, unless all are to stop before they are known.
StopReason Training::evaluate_epoch(EpochMetrics& row) {
  const trace::Span span("evaluate", "train");
  const double begin = seconds_now();
  StopReason reason = StopReason::none;
  const auto go_on = [&] { return (reason = stop_.after_evaluated_batch()) == StopReason::none; };
  averager_->settle(exec_, replica_.parameters);
  row.train_loss = sums_.images > 0 ? sums_.loss / sums_.images : 0;
  const auto mean_over_ranks = [&](const Buffer<float>& from, const Buffer<float>& to) {
    const auto host = Kokkos::create_mirror(from);
    Kokkos::deep_copy(host, from);
    comm_.mean(host);
    Kokkos::deep_copy(to, host);
  };
  const Replica& mean_model = setup_.mean;
  mean_over_ranks(replica_.parameters, mean_model.parameters);
  mean_over_ranks(replica_.statistics, mean_model.statistics);
  // Running statistics describe the weights' activations: replicas that are held together share them.
  const bool apart = row_of(config_.averager).exchanges == Exchange::nothing && config_.averager.global_every == 0;
  if (!apart) Kokkos::deep_copy(replica_.statistics, mean_model.statistics);

  const Evaluation own = evaluate(exec_, network_, replica_, *setup_.whole_test, setup_.whole_batches, go_on);
  if (reason != StopReason::none) return reason;
  row.test_loss = own.loss();
  row.test_score = own.score();
  const Evaluation part = evaluate(exec_, network_, mean_model, *setup_.shared_test, setup_.shared_batches, go_on);
  if (reason != StopReason::none) return reason;
  const Evaluation mean = over_ranks(part, comm_);
  row.mean_model_loss = mean.loss();
  row.mean_model_score = mean.score();
  const double distance = comm_.sum(squared_distance(exec_, replica_.parameters, mean_model.parameters));
  row.consensus_distance = std::sqrt(distance / comm_.ranks());
  evaluation_seconds_ = seconds_now() - begin;
  row.seconds = sums_.training_seconds + evaluation_seconds_;
  return reason;
}

// Save ----------------------------------------------------------------------------------------------------------------

bool Training::checkpoint_is_due() const {
  const int every = config_.output.checkpoint_steps;
  return every > 0 && step_ % every == 0;
}

/// Collective; `header` says how good the model is, if that is known.
void Training::save(CheckpointHeader header) {
  averager_->settle(exec_, replica_.parameters);
  header.step = step_;
  header.epoch = epoch_;
  header.step_in_epoch = step_in_epoch_;
  header.network = config_.network.name;
  header.averager = title_of(config_.averager);
  header.topology = setup_.topology->kind();
  header.versions = options_.versions;
  header.input = to_string(setup_.train_set->shape());
  files_.save(std::move(header), replica_, optimizer_, averager_->state(), sums_, stop_.failure());
}

/// Reports checkpoints that have come to the disk, and has all ranks stop where files cannot be written.
void Training::look_after_files() {
  const std::string error = files_.error();
  if (!error.empty()) stop_.fail(error);
  for (const WrittenCheckpoint& checkpoint : files_.written()) {
    stop_.checkpoint_took(checkpoint.seconds);
    if (config_.output.checkpoint_steps == 0) continue;
    report_.line("  checkpoint " + checkpoint.path + ", " + human_bytes(checkpoint.bytes) + " in " +
                 number(std::lround(1000 * checkpoint.seconds)) + " ms");
  }
}

/// "epoch 2, step 17 of 40 (57 steps in total)"
std::string Training::position() const {
  return "epoch " + number(epoch_ + 1) + ", step " + number(step_in_epoch_) + " of " + number(loader_.steps()) + " (" +
         number(step_) + " steps in total)";
}

// All of it -----------------------------------------------------------------------------------------------------------

TrainingResult Training::run() {
  const std::int64_t epochs = config_.training.epochs;
  const std::int64_t last = options_.stop_after > 0 ? std::min(epochs, epoch_ + options_.stop_after) : epochs;
  const std::int64_t first_step = step_;
  const std::int64_t sent_before = averager_->bytes_sent();
  TrainingResult result;
  if (epoch_ == last) {
    report_.line("Nothing is left to train: training.epochs = " + number(epochs) + " are done");
    EpochMetrics row;
    result.stopped = to_string(evaluate_epoch(row));
    result.last = summarise(row);
    result.last.train_loss = std::numeric_limits<double>::quiet_NaN();
  }
  double images = 0, training_seconds = 0, waited = 0;
  while (epoch_ < last) {
    EpochMetrics row;
    StopReason reason = train_epoch();
    if (reason == StopReason::none) reason = evaluate_epoch(row);
    const double score = goodness(metric_of(config_.loss.name).name, row.test_score);
    const bool whole = reason == StopReason::none;
    if (whole && averager_->after_epoch(exec_, epoch_ + 1, replica_.parameters, score)) reason = evaluate_epoch(row);
    if (reason != StopReason::none) {
      save(CheckpointHeader());
      files_.finish();
      stop_.end_not_finite(folder_.folder().checkpoint(step_));
      result.stopped = to_string(reason);
      report_.line("Stopped by " + result.stopped + " after " + position() + "; the checkpoint is " +
                   folder_.folder().checkpoint(step_));
      break;
    }
    result.last = finish_epoch(row, epoch_ + 1 == last);
    report_.epoch_ends(result.last);
    result.seconds += result.last.seconds;
    images += result.last.images;
    training_seconds += result.last.training_seconds;
    waited += result.last.wait_share * result.last.training_seconds;
  }
  files_.finish();
  look_after_files();
  result.epochs = epoch_;
  result.steps = step_;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, step_ - first_step));
  result.images_per_second = training_seconds > 0 ? images / training_seconds : 0;
  result.wait_share = training_seconds > 0 ? waited / training_seconds : 0;
  result.bytes_sent = comm_.sum(static_cast<double>(averager_->bytes_sent() - sent_before)) / (steps * comm_.ranks());
  result.skipped = comm_.sum(skipped_);
  const RunFolder& folder = folder_.folder();
  result.checkpoint = folder.holds_checkpoint() ? folder.newest() : "";
  result.metrics = folder.metrics();
  result.config = folder.config();
  return result;
}

}  // namespace

TrainingResult Trainer::run(const TrainOptions& options) {
  std::optional<Tracing> tracing;
  if (options.trace) tracing.emplace(setup_.comm);
  TrainingResult result = Training(setup_, report_, options).run();
  if (tracing) {
    const std::string path = run_folder(setup_.config).trace();
    tracing->write(path);
    report_.line("Trace of all ranks: " + path);
  }
  return result;
}

}  // namespace halograd
