#include <algorithm>

#include "kernels/error.hpp"
#include "run/read.hpp"
#include "train/trainer.hpp"

namespace halograd {
namespace {

/// Lengths alone do not tell: other networks may have as many parameters, other optimizers as many buffers.
void require_same_model(const RunConfig& before, const RunConfig& config, const std::string& path) {
  const NetworkConfig &old = before.network, &asked = config.network;
  HALOGRAD_REQUIRE(old.name == asked.name, "checkpoint ", path, " is of the network '", old.name,
                   "', but the run file describes '", asked.name, "'");
  const auto differ = std::mismatch(old.layers.begin(), old.layers.end(), asked.layers.begin(), asked.layers.end());
  HALOGRAD_REQUIRE(old == asked, "checkpoint ", path, " is of another network '", old.name, "' than the run file's: ",
                   differ.first == old.layers.end() ? "it has no layer '" + differ.second->name + "'"
                                                    : "its layer '" + differ.first->name + "' is not the same");
  HALOGRAD_REQUIRE(before.optimizer.name == config.optimizer.name, "checkpoint ", path, " is of the optimizer '",
                   before.optimizer.name, "', but the run file asks for '", config.optimizer.name, "'");
}

std::string averaging(const RunConfig& config) {
  const std::string& name = config.averager.name;
  if (name == "none" || name == "allreduce" || name == "easgd") return name;
  return name + (name == "neighbour" ? " " + config.averager.order : "") + (config.averager.overlap ? " overlap" : "") +
         " on " + (config.topology.kind == "file" ? config.topology.file : config.topology.kind) +
         (config.averager.codec == "fp32" ? "" : " with codec " + config.averager.codec);
}

}  // namespace

void Trainer::resume(const std::string& checkpoint) {
  CheckpointHeader header;
  RunConfig before;
  comm_.together([&] {
    header = read_checkpoint_header(checkpoint);
    before = parse_config(header.config, checkpoint + ", attribute config");
    HALOGRAD_REQUIRE(header.epoch <= config_.training.epochs, "checkpoint ", checkpoint, " has done ", header.epoch,
                     " epochs, more than training.epochs = ", config_.training.epochs);
    require_same_model(before, config_, checkpoint);
  });
  sums_ = files_->read(checkpoint, header, replica_, *optimizer_);
  step_ = header.step;
  epoch_ = header.epoch;
  // Epochs are dealt in the same order on every number of ranks: only the size of a step can move the position.
  const std::int64_t images = header.step_in_epoch * before.training.batch;
  step_in_epoch_ = std::min<std::int64_t>(images / config_.training.batch, loader_->steps());
  start_averager();
  const std::string dropped = restore_averager(checkpoint, header, before);
  files_->go_on(header);

  const auto number = [](std::int64_t value) { return std::to_string(value); };
  report_.line("Resumed from " + checkpoint + ": " + number(epoch_) + " epochs" +
               (step_in_epoch_ > 0 ? " and " + number(step_in_epoch_) + " steps, " : ", ") + number(step_) +
               " steps in all done");
  if (header.ranks != comm_.ranks()) {
    report_.line("NOTE: the checkpoint is of " + number(header.ranks) + " ranks, this job has " +
                 number(comm_.ranks()) + ": all replicas start from the mean of the " + number(header.ranks) +
                 ", the optimizer's state " +
                 (config_.training.resumed_optimizer == "reset" ? "from zero" : "from the mean of theirs"));
  }
  if (before.training.batch != config_.training.batch) {
    report_.line("NOTE: training.batch was " + number(before.training.batch) + " and is " +
                 number(config_.training.batch) + ": the epoch goes on at image " +
                 number(step_in_epoch_ * config_.training.batch) + " of its order, after " + number(images));
  }
  if (averaging(before) != averaging(config_)) {
    report_.line("NOTE: the averager was " + averaging(before) + " and is " + averaging(config_));
  }
  if (!dropped.empty()) report_.line("NOTE: the averager's own state starts anew: " + dropped);
}

void Trainer::start_averager() {
  AveragerContext context{
      config_.averager, config_.comm, *topology_, comm_.handle(), network_->parameter_count(), step_};
  for (const Buffer<float>& state : optimizer_->state()) context.optimizer_state.emplace_back(state);
  context.optimizer_step = [this](const ExecutionSpace& exec, Vector<float> weights, Vector<const float> gradient) {
    optimizer_->step(exec, rate_, step_ + 1, 0, weights, gradient);
  };
  context.halo_memory = halos_.memory;
  averager_ = make_averager(context);
  if (config_.averager.name != "none") {
    progress_ = make_progress_thread(config_.comm, comm_.handle(), comm_.nodes(), halos_.memory);
  }
  if (progress_) {
    report_.line("MPI moves puts only when called: a thread does so each " + std::to_string(config_.comm.progress_us) +
                 " us (comm.progress_us)");
  }
}

std::string Trainer::restore_averager(const std::string& checkpoint, const CheckpointHeader& header,
                                      const RunConfig& before) {
  const std::vector<SavedState> state = averager_->state();
  std::string difference;
  comm_.together([&] {
    if (comm_.rank() == 0) difference = averager_state_difference(checkpoint, state);
  });
  difference = comm_.broadcast(difference);
  const bool same = header.ranks == comm_.ranks() && averaging(before) == averaging(config_);
  if (difference.empty() && same) {
    read_averager_state(comm_.handle(), checkpoint, state);
    averager_->restored();
    return "";
  }
  if (!difference.empty()) return difference;
  if (state.empty()) return "";
  return header.ranks == comm_.ranks() ? "it is of another averager" : "it is of another number of ranks";
}

}  // namespace halograd
