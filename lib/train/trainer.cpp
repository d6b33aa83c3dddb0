#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "mpi/node_group.hpp"
#include "nn/reference_networks.hpp"
#include "run/write.hpp"
#include "support/memory.hpp"
#include "support/seconds.hpp"
#include "support/trace.hpp"
#include "train/checkpoint_model.hpp"
#include "train/node_warning.hpp"
#include "train/precision.hpp"
#include "train/start_facts.hpp"
#include "train/tracing.hpp"

namespace halograd {
namespace {

constexpr double slow_disk = 100e6;  // bytes a second

}  // namespace

Trainer::Trainer(const RunConfig& config, const Communicator& comm, Report& report)
    : config_(config), comm_(comm), report_(report), injector_(config.comm.inject) {
  comm_.require_same(to_toml(config_), "run file");
  const bool of_nodes = config_.averager.name == "hierarchical";
  const int nodes = of_nodes ? node_group(comm_.handle(), config_.comm.ranks_per_node).nodes : 0;
  comm_.together([&] {
    const int slow_rank = config_.comm.inject.slow_rank;
    HALOGRAD_REQUIRE(slow_rank < comm_.ranks(), "comm.inject.slow_rank is ", slow_rank, ", expected a rank below ",
                     comm_.ranks());
    const std::uint64_t seed = config_.training.seed;
    const Warn warn = node_warning(comm_);
    train_set_ = open_dataset(config_.data, Split::train, seed, warn);
    test_set_ = open_dataset(config_.data, Split::test, seed, warn);
    HALOGRAD_REQUIRE(train_set_->shape() == test_set_->shape() && test_set_->classes() <= train_set_->classes(),
                     "data at ", config_.data.path, ": training images are of ", to_string(train_set_->shape()),
                     " and ", train_set_->classes(), " classes, test images of ", to_string(test_set_->shape()),
                     " and ", test_set_->classes(), "; expected the same shape and no further classes");
    LoaderOptions options;
    options.global_batch = config_.training.batch;
    options.rank = comm_.rank();
    options.ranks = comm_.ranks();
    options.seed = seed;
    options.prefetch = config_.data.prefetch;
    const bool shared_by_speed = config_.training.shares == "measured";
    if (shared_by_speed) options.most = 2L * ((options.global_batch + options.ranks - 1) / options.ranks);
    loader_ = std::make_unique<Loader>(*train_set_, config_.data, options);
    const int largest = loader_->largest_batch();
    options.training = false;
    options.most = 0;
    options.global_batch = largest * comm_.ranks();
    shared_test_ = std::make_unique<Loader>(*test_set_, config_.data, options);
    options.global_batch = largest;
    options.rank = 0;
    options.ranks = 1;
    whole_test_ = std::make_unique<Loader>(*test_set_, config_.data, options);

    const Target target = target_of(*train_set_, config_.loss);
    config_.network = expand_network(config_.network, outputs_of(target));
    network_ = std::make_unique<Network>(config_.network, train_set_->shape(), target, largest);
    network_->compute_in(precision_named(config_.training.precision));
    const bool told_early = works_beside_gradient(config_.averager) && comm_.ranks() > 1;
    network_->replay_steps(config_.training.step_recording == "auto" && !told_early);
    topology_ =
        std::make_unique<Topology>(of_nodes ? make_topology(config_.topology, nodes)
                                            : make_topology(config_.topology, comm_.ranks(), comm_.node_of_rank()));
    const auto parameters = static_cast<double>(network_->parameter_count());
    const auto states = static_cast<double>(make_optimizer(config_.optimizer, 0)->state().size());
    require_kernel_memory(sizeof(float) * parameters * (3 + states), "parameters, gradients and mean model of " +
                                                                         config_.network.name + " and the state of " +
                                                                         config_.optimizer.name);
    optimizer_ = make_optimizer(config_.optimizer, network_->parameter_count());
    replica_ = network_->make_replica(seed);
    mean_.parameters = Buffer<float>("halograd::mean_parameters", network_->parameter_count());
    mean_.statistics = Buffer<float>("halograd::mean_statistics", network_->statistic_count());
    guard_ = std::make_unique<FiniteGuard>(*network_, replica_);
  });
  // A rank's share of a batch, and so the size and number of its test batches, may be another than its neighbour's.
  whole_batches_ = std::lround(comm_.largest(static_cast<double>(whole_test_->steps())));
  shared_batches_ = std::lround(comm_.largest(static_cast<double>(shared_test_->steps())));
  halos_ = choose_halo_memory(config_.comm, config_.averager, *topology_, comm_.handle(), network_->parameter_count());
  files_ = std::make_unique<RunFiles>(comm_, config_, *network_, *optimizer_);
}

Trainer::~Trainer() = default;

StartFacts Trainer::facts() const {
  return start_facts(config_, comm_, *network_, *topology_, *train_set_, *test_set_, *loader_,
                     optimizer_->state().size(), halos_);
}

TrainingResult Trainer::run(const TrainOptions& options) {
  try {
    return train(options);
  } catch (const CollectiveError&) {
    files_->settle();  // all ranks end alike, and can still end in order
    throw;
  }
}

TrainingResult Trainer::train(const TrainOptions& options) {
  versions_ = options.versions;
  std::unique_ptr<Tracing> tracing;
  if (options.trace) tracing = std::make_unique<Tracing>(comm_);
  open_run(options);
  const std::int64_t epochs = config_.training.epochs;
  const std::int64_t last = options.stop_after > 0 ? std::min(epochs, epoch_ + options.stop_after) : epochs;
  const std::int64_t first_step = step_;
  const std::int64_t sent_before = averager_->bytes_sent();
  if (!stop_->limit().empty()) report_.line("Stops with a checkpoint in time for the limit of " + stop_->limit());
  TrainingResult result;
  if (epoch_ == last) {
    report_.line("Nothing left to train: training.epochs = " + std::to_string(epochs) + " are done");
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
    const double score = metric_of(config_.loss) == "error" ? -row.test_score : row.test_score;
    const bool whole = reason == StopReason::none;
    if (whole && averager_->after_epoch(exec_, epoch_ + 1, replica_.parameters, score)) reason = evaluate_epoch(row);
    if (reason != StopReason::none) {
      save(CheckpointHeader());
      files_->finish();
      stop_->end_not_finite(files_->folder().checkpoint(step_));
      result.stopped = to_string(reason);
      report_.line("Stopped by " + result.stopped + " after " + position() + "; all of it is in " +
                   files_->folder().checkpoint(step_));
      break;
    }
    result.last = finish_epoch(row, epoch_ + 1 == last);
    report_.epoch_ends(result.last);
    result.seconds += result.last.seconds;
    images += result.last.images;
    training_seconds += result.last.training_seconds;
    waited += result.last.wait_share * result.last.training_seconds;
  }
  files_->finish();
  look_after_files();
  if (tracing) {
    tracing->write(files_->folder().trace());
    report_.line("Trace of all ranks: " + files_->folder().trace());
  }
  result.epochs = epoch_;
  result.steps = step_;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, step_ - first_step));
  result.images_per_second = training_seconds > 0 ? images / training_seconds : 0;
  result.wait_share = training_seconds > 0 ? waited / training_seconds : 0;
  result.bytes_sent = comm_.sum(static_cast<double>(averager_->bytes_sent() - sent_before)) / (steps * comm_.ranks());
  result.skipped = static_cast<std::int64_t>(comm_.sum(static_cast<double>(skipped_)));
  result.checkpoint = files_->folder().holds_checkpoint() ? files_->folder().newest() : "";
  result.metrics = files_->folder().metrics();
  result.config = files_->folder().config();
  return result;
}

EpochSummary Trainer::finish_epoch(const EpochMetrics& row, bool last) {
  files_->add_epoch(row, averager_->take_edges());
  ++epoch_;
  EpochSummary summary = summarise(row);
  step_in_epoch_ = 0;
  sums_ = {};
  const int every = config_.output.checkpoint_epochs;
  if ((every > 0 && (epoch_ % every == 0 || last)) || checkpoint_is_due()) {
    CheckpointHeader header;
    header.metric = metric_of(config_.loss);
    header.mean_model_score = row.mean_model_score;
    header.mean_model_loss = row.mean_model_loss;
    save(std::move(header));
  }
  return summary;
}

EpochSummary Trainer::summarise(const EpochMetrics& row) const {
  EpochSummary summary;
  summary.epoch = epoch_;
  summary.epochs = config_.training.epochs;
  summary.metric = metric_of(config_.loss);
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

void Trainer::open_run(const TrainOptions& options) {
  files_->lock(report_);
  const std::string checkpoint = options.resume ? files_->newest_whole_checkpoint(report_) : "";
  if (!checkpoint.empty()) {
    resume(checkpoint);
  } else {
    if (!options.init.empty()) comm_.together([&] { load_mean(options.init, replica_); });
    files_->begin(options.overwrite);
    start_averager();
    if (options.resume) {
      report_.line("No checkpoint in " + files_->folder().path + " yet: starting from the beginning");
    }
  }
  const auto values = static_cast<double>(network_->parameter_count() * (1 + optimizer_->state().size()));
  stop_ = std::make_unique<Stop>(comm_, config_.training.time_limit, 4 * values * comm_.ranks() / slow_disk);
}

StopReason Trainer::train_epoch() {
  if (config_.training.shares == "measured") share_by_speed();
  loader_->start_epoch(epoch_, step_in_epoch_);
  report_.epoch_begins(epoch_, config_.training.epochs, loader_->steps(), step_in_epoch_);
  double begin = seconds_now();
  const auto next_batch = [this] {
    const trace::Span span("data", "data");
    return loader_->next();
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
    files_->add_step(row);
    ++step_in_epoch_;
    report_.step(step_in_epoch_, row.loss, batch->global_size);
    look_after_files();
    const StopReason reason = stop_->after_step();
    if (reason != StopReason::none) return reason;
    if (checkpoint_is_due() && step_in_epoch_ < loader_->steps()) save(CheckpointHeader());
  }
  return stop_->now(evaluation_seconds_);
}

StopReason Trainer::evaluate_epoch(EpochMetrics& row) {
  const trace::Span span("evaluate", "train");
  const double begin = seconds_now();
  StopReason reason = StopReason::none;
  const auto go_on = [&] { return (reason = stop_->after_evaluated_batch()) == StopReason::none; };
  averager_->settle(exec_, replica_.parameters);
  row.train_loss = sums_.images > 0 ? sums_.loss / sums_.images : 0;
  const auto mean_over_ranks = [&](const Buffer<float>& from, const Buffer<float>& to) {
    const auto host = Kokkos::create_mirror(from);
    Kokkos::deep_copy(host, from);
    comm_.mean(host);
    Kokkos::deep_copy(to, host);
  };
  mean_over_ranks(replica_.parameters, mean_.parameters);
  mean_over_ranks(replica_.statistics, mean_.statistics);
  // Running statistics describe the weights' activations: replicas that are held together share them.
  const bool apart = config_.averager.name == "none" && config_.averager.global_every == 0;
  if (!apart) Kokkos::deep_copy(replica_.statistics, mean_.statistics);

  const Evaluation own = evaluate(exec_, *network_, replica_, *whole_test_, whole_batches_, go_on);
  if (reason != StopReason::none) return reason;
  row.test_loss = own.loss();
  row.test_score = own.score();
  const Evaluation part = evaluate(exec_, *network_, mean_, *shared_test_, shared_batches_, go_on);
  if (reason != StopReason::none) return reason;
  const Evaluation mean = over_ranks(part, comm_);
  row.mean_model_loss = mean.loss();
  row.mean_model_score = mean.score();
  const double distance = comm_.sum(squared_distance(exec_, replica_.parameters, mean_.parameters));
  row.consensus_distance = std::sqrt(distance / comm_.ranks());
  evaluation_seconds_ = seconds_now() - begin;
  row.seconds = sums_.training_seconds + evaluation_seconds_;
  return reason;
}

std::string Trainer::position() const {
  return "epoch " + std::to_string(epoch_ + 1) + ", step " + std::to_string(step_in_epoch_) + " of " +
         std::to_string(loader_->steps()) + " (" + std::to_string(step_) + " steps in all)";
}

bool Trainer::checkpoint_is_due() const {
  const int every = config_.output.checkpoint_steps;
  return every > 0 && step_ % every == 0;
}

void Trainer::save(CheckpointHeader header) {
  averager_->settle(exec_, replica_.parameters);
  header.step = step_;
  header.epoch = epoch_;
  header.step_in_epoch = step_in_epoch_;
  header.network = config_.network.name;
  header.averager =
      config_.averager.name == "neighbour" ? "neighbour " + config_.averager.order : config_.averager.name;
  header.topology = topology_->kind();
  header.versions = versions_;
  header.input = to_string(train_set_->shape());
  files_->save(std::move(header), replica_, *optimizer_, averager_->state(), sums_, stop_->failure());
}

void Trainer::look_after_files() {
  const std::string error = files_->error();
  if (!error.empty()) stop_->fail(error);
  for (const WrittenCheckpoint& checkpoint : files_->written()) {
    stop_->checkpoint_took(checkpoint.seconds);
    if (config_.output.checkpoint_steps == 0) continue;
    report_.line("  checkpoint " + checkpoint.path + ", " + human_bytes(checkpoint.bytes) + " in " +
                 std::to_string(std::lround(1000 * checkpoint.seconds)) + " ms");
  }
}

}  // namespace halograd
