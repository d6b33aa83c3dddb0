#include "train/run_files.hpp"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "io/checkpoint_store.hpp"
#include "io/local_copies.hpp"
#include "kernels/error.hpp"
#include "kernels/region.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "support/job_notes.hpp"
#include "train/model.hpp"
#include "train/trainer.hpp"

namespace halograd {
namespace {

using Clock = std::chrono::steady_clock;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Collective: that the run goes on from this checkpoint.
void begin_with(const std::string& checkpoint, const Communicator& comm, RunStart& start) {
  comm.together([&] {
    start.checkpoint = checkpoint;
    start.header = read_checkpoint_header(checkpoint);
    start.before = parse_config(start.header.config, checkpoint + ", attribute config");
    if (comm.rank() == 0) note_for_job("checkpoint " + std::to_string(start.header.step));
  });
}

/// The larger the better.
double ranked_score(const CheckpointHeader& header) {
  return goodness(header.metric, header.mean_model_score);
}

}  // namespace

RunFolder run_folder(const RunConfig& config) {
  return {config.output.folder + "/" + config.name};
}

ClaimedFolder::ClaimedFolder(const Communicator& comm, const RunConfig& config, Report& report)
    : folder_(run_folder(config)) {
  bool held = true;
  comm.together([&] {
    if (comm.rank() != 0) return;
    make_run_folder(folder_);
    held = lock_.emplace(folder_.path).held();
  });
  if (!held)
    report.line("The file system of " + folder_.path +
                " has no locks: a second job in this folder will not be noticed");
}

void ClaimedFolder::sign() {
  if (lock_) lock_->sign();
}

RunStart find_start(const Communicator& comm, const RunFolder& folder, bool resume, Report& report) {
  RunStart start;
  if (!resume) return start;
  std::string list;
  comm.together([&] {
    if (comm.rank() == 0) list = joined(stored_checkpoints(folder));
  });
  std::string reasons, whole;
  Foreign unread = Foreign::no_rank;  // which rank could not read one of them
  for (const std::string& path : split(comm.broadcast(list))) {
    std::string reason;
    bool damaged = true;
    try {
      reason = checkpoint_damage(comm, path);
    } catch (const CollectiveError& error) {
      if (error.foreign() == Foreign::no_rank) throw;
      reason = error.what();
      damaged = false;
      if (unread != Foreign::this_rank) unread = error.foreign();
    }
    if (reason.empty()) {
      whole = path;
      break;
    }
    report.line((damaged ? "Skipped a damaged checkpoint: " : "Skipped a checkpoint that cannot be read: ") + reason);
    reasons += "\n  " + reason;
    start.skipped.push_back({path, damaged});
  }
  if (whole.empty() && !start.skipped.empty()) {
    const std::string advice = "\nstart over with --overwrite, or under another name (--set name=...)";
    comm.fail_together("no checkpoint in " + folder.checkpoints() + " is intact:" + reasons +
                           (unread == Foreign::no_rank ? advice : ""),
                       unread);
  }
  if (!whole.empty()) begin_with(whole, comm, start);
  return start;
}

void take_up_local_copies(RunStart& start, const Communicator& comm, const RunConfig& config, const RunFolder& folder,
                          const Network& network, Report& report) {
  if (config.output.local_steps == 0) return;
  std::string restored;
  try {
    const std::string copies = local_folder(comm, config.output.local_folder, folder);
    if (copies.empty()) return;
    restored = restore_local_copies(comm, copies, start.header.step, folder, network.parameters(), network.statistics(),
                                    config.output.compress);
  } catch (const CollectiveError& error) {
    if (start.checkpoint.empty()) throw;  // rather than to begin again
    report.line(std::string("No checkpoint could be made of copies on the nodes: ") + error.what());
    return;
  }
  if (restored.empty()) return;
  report.line("Made " + restored + " of copies on the nodes (output.local_steps), later than " +
              (start.checkpoint.empty() ? "any checkpoint" : start.checkpoint));
  begin_with(restored, comm, start);
  // what had this name is replaced
  std::erase_if(start.skipped, [&](const SkippedCheckpoint& each) { return each.path == restored; });
}

namespace {

void fill(ReplicaMemory& copy, const Replica& replica, const Optimizer& optimizer, const Shards& shards,
          const std::vector<SavedState>& averager, const EpochSums& sums) {
  ReplicaState& state = copy.state;
  Kokkos::deep_copy(state.parameters, shards.of(replica.parameters));
  Kokkos::deep_copy(state.statistics, replica.statistics);
  for (std::size_t i = 0; i < state.optimizer.size(); ++i) Kokkos::deep_copy(state.optimizer[i], optimizer.state()[i]);
  state.averager.clear();
  for (const SavedState& part : shards.named(averager)) copy.add(part);
  state.share = shards.share(averager);
  state.sums = sums;
}

}  // namespace

EpochSums read_state(const Communicator& comm, const RunStart& start, bool reset_optimizer, const Replica& replica,
                     const Optimizer& optimizer, const Shards& shards) {
  const bool own_rows = start.header.ranks == comm.ranks();
  const ReplicaMemory copy(replica.parameters.extent(0), replica.statistics.extent(0), optimizer.state().size());
  const EpochSums sums = own_rows ? read_checkpoint(comm, start.checkpoint, copy.state)
                                  : read_checkpoint_as_mean(comm, start.checkpoint, copy.state);
  Kokkos::deep_copy(replica.parameters, copy.state.parameters);
  Kokkos::deep_copy(replica.statistics, copy.state.statistics);
  for (std::size_t i = 0; i < copy.state.optimizer.size(); ++i) {
    if (reset_optimizer && !own_rows) {
      Kokkos::deep_copy(optimizer.state()[i], 0.0F);
    } else {
      Kokkos::deep_copy(optimizer.state()[i], slice(copy.state.optimizer[i], shards.begin(), shards.length()));
    }
  }
  return sums;
}

RunFiles::RunFiles(const Communicator& world, const ReplicaGroup& group, const RunConfig& config, ClaimedFolder& folder,
                   const Network& network, const Optimizer& optimizer, ExistingRun existing, const RunStart& start)
    : world_(world),
      has_rows_(group.place() == 0),
      config_(config),
      folder_(folder.folder()),
      parameters_(network.parameters()),
      statistics_(network.statistics()),
      copy_(trains_freely(config, group.replicas())
                ? nullptr
                : std::make_unique<ReplicaMemory>(group.shard_of(network.parameter_count()).length,
                                                  network.statistic_count(), optimizer.state().size())),
      worker_(world),
      replicas_(worker_.comm().split(group.place())) {
  if (start.checkpoint.empty()) {
    begin(folder, existing);
  } else {
    go_on(folder, start);
  }
}

void RunFiles::begin(ClaimedFolder& folder, ExistingRun existing) {
  world_.together([&] {
    if (world_.rank() != 0) return;
    prepare_run_folder(folder_, to_toml(config_), existing);
    prepare_checkpoints(folder_);
    folder.sign();
  });
  if (config_.output.local_steps > 0) local_folder_ = make_local_folder(world_, config_.output.local_folder, folder_);
  open_metrics(nullptr);
}

void RunFiles::go_on(ClaimedFolder& folder, const RunStart& start) {
  world_.together([&] {  // before anything is changed
    if (world_.rank() == 0) prepare_checkpoints(folder_);
  });
  open_metrics(&start.header);
  // Copies on nodes that this job has not may be of steps that it will make otherwise.
  if (config_.output.local_steps > 0) local_folder_ = rename_local_folder(world_, config_.output.local_folder, folder_);
  world_.together([&] {
    if (world_.rank() != 0) return;
    prepare_run_folder(folder_, to_toml(config_), ExistingRun::keep);
    for (const SkippedCheckpoint& each : start.skipped) {
      set_aside(each.path, each.damaged ? ".damaged" : ".unreadable");
    }
    folder.sign();
    const std::string best = link_target(folder_, folder_.best());
    try {
      if (!best.empty()) {
        const CheckpointHeader of_best = read_checkpoint_header(best);
        best_ = {best, ranked_score(of_best), of_best.mean_model_loss};
      }
    } catch (const Error& error) {
      if (foreign_of(error) != Foreign::no_rank) throw;
      best_ = {};  // gone or damaged: the next good one takes its place
    }
    publish(start.checkpoint, start.header);  // the job before may have ended between its checkpoint and the links
  });
}

/// `start`: the checkpoint's; null for a run that begins.
void RunFiles::open_metrics(const CheckpointHeader* start) {
  const std::int64_t steps = start == nullptr ? -1 : start->step, epochs = start == nullptr ? -1 : start->epoch;
  on_metrics([&] {
    metrics_ =
        std::make_unique<MetricsFile>(replicas(), folder_.metrics(), steps, epochs, metric_of(config_.loss.name).name);
  });
}

void RunFiles::on_metrics(const std::function<void()>& work) const {
  world().together_in_parts([&] {
    if (has_rows_) work();
  });
}

void RunFiles::add_epoch(const EpochMetrics& row, std::vector<EdgeRecord> edges) {
  post([this, steps = take_steps(), row, edges = std::move(edges)] { write_epoch(steps, row, edges); });
}

void RunFiles::save(CheckpointPlace place, CheckpointHeader header, const Replica& replica, const Optimizer& optimizer,
                    const Shards& shards, const std::vector<SavedState>& averager, const EpochSums& sums,
                    const Failure& failure) {
  const Region region("checkpoint");
  finish();  // the copies are in use until then
  fill(*copy_, replica, optimizer, shards, averager, sums);
  post([this, place, steps = take_steps(), header = std::move(header), failure] {
    write_checkpoint(place, header, *copy_, steps, failure);
  });
}

void RunFiles::close() {
  post([this] { on_metrics([this] { metrics_->close(); }); });
  finish();
  if (!local_folder_.empty()) discard_local_copies(world_, local_folder_, folder_);
}

std::shared_ptr<ReplicaMemory> RunFiles::copy(const Replica& replica, const Optimizer& optimizer, const Shards& shards,
                                              const std::vector<SavedState>& averager, const EpochSums& sums) const {
  const Region region("checkpoint");
  auto copy = std::make_shared<ReplicaMemory>(shards.length(), replica.statistics.extent(0), optimizer.state().size());
  fill(*copy, replica, optimizer, shards, averager, sums);
  return copy;
}

void RunFiles::write_epoch(const std::vector<StepRow>& steps, const EpochMetrics& row,
                           const std::vector<EdgeRecord>& edges) {
  add_to_metrics(steps);
  on_metrics([&] { metrics_->add_epoch(row, edges); });
}

void RunFiles::add_to_metrics(const std::vector<StepRow>& steps) {
  on_metrics([&] {
    for (const StepRow& step : steps) metrics_->add_step(step.values, step.cell);
  });
}

void RunFiles::write_checkpoint(CheckpointPlace place, CheckpointHeader header, const ReplicaMemory& copy,
                                const std::vector<StepRow>& steps, const Failure& failure) {
  const Clock::time_point begin = Clock::now();
  world().fail_together(failure.message, failure.foreign);
  // The metrics first: whoever resumes needs the rows of all steps that the checkpoint has done.
  add_to_metrics(steps);
  on_metrics([&] { metrics_->flush(header.step); });
  header.ranks = replicas().ranks();
  header.optimizer_steps = world().smallest(header.optimizer_steps);  // which differ at a free pace
  header.config = to_toml(config_);
  if (place == CheckpointPlace::nodes) return write_on_nodes(header, copy);
  const std::string path = folder_.checkpoint(header.step);
  halograd::write_checkpoint(world(), path, header, copy.state, parameters_, statistics_, config_.output.compress);
  world().together([&] {
    if (world().rank() == 0) publish(path, header);
  });
  const double bytes = world().sum(copy.bytes());
  const std::lock_guard<std::mutex> lock(mutex_);
  written_.push_back({path, header.step, bytes, std::chrono::duration<double>(Clock::now() - begin).count()});
}

void RunFiles::write_on_nodes(const CheckpointHeader& header, const ReplicaMemory& copy) {
  try {
    write_local_copies(world(), local_folder_, header, copy.state);
  } catch (const CollectiveError& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    local_failure_ = error.what();
  }
}

std::string RunFiles::local_failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(local_failure_, {});
}

void RunFiles::publish(const std::string& path, const CheckpointHeader& header) {
  point_link(folder_.newest(), path);
  note_for_job("checkpoint " + std::to_string(header.step));
  const double score = ranked_score(header);
  const bool better = score > best_.score || (score == best_.score && header.mean_model_loss < best_.loss);
  if (config_.output.keep_best && better) {
    point_link(folder_.best(), path);
    best_ = {path, score, header.mean_model_loss};
  }
  remove_old_checkpoints(folder_, config_.output.keep, best_.path);
}

std::vector<WrittenCheckpoint> RunFiles::written() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(written_, {});
}

}  // namespace halograd
