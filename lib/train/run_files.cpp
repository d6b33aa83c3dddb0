#include "train/run_files.hpp"

#include <chrono>
#include <sstream>
#include <utility>

#include "io/checkpoint_store.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "support/job_notes.hpp"
#include "train/model.hpp"

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
  std::string reasons;
  for (const std::string& path : split(comm.broadcast(list))) {
    const std::string damage = checkpoint_damage(comm, path);
    if (damage.empty()) {
      start.checkpoint = path;
      break;
    }
    report.line("Skipped a damaged checkpoint: " + damage);
    reasons += "\n  " + damage;
    start.damaged.push_back(path);
  }
  comm.together([&] {
    HALOGRAD_REQUIRE(!start.checkpoint.empty() || start.damaged.empty(), "no checkpoint in ", folder.checkpoints(),
                     " is intact:", reasons, "\nstart over with --overwrite, or under another name (--set name=...)");
    if (start.checkpoint.empty()) return;
    start.header = read_checkpoint_header(start.checkpoint);
    start.before = parse_config(start.header.config, start.checkpoint + ", attribute config");
    if (comm.rank() == 0) note_for_job("checkpoint " + std::to_string(start.header.step));
  });
  return start;
}

StateCopy::StateCopy(std::size_t parameters, std::size_t statistics, std::size_t optimizer_buffers) {
  buffers_.emplace_back("halograd::saved_parameters", parameters);
  buffers_.emplace_back("halograd::saved_statistics", statistics);
  for (std::size_t i = 0; i < optimizer_buffers; ++i) buffers_.emplace_back("halograd::saved_optimizer", parameters);
  state.parameters = buffers_[0];
  state.statistics = buffers_[1];
  state.optimizer.assign(buffers_.begin() + 2, buffers_.end());
}

void StateCopy::take(const Replica& replica, const Optimizer& optimizer) {
  Kokkos::deep_copy(state.parameters, replica.parameters);
  Kokkos::deep_copy(state.statistics, replica.statistics);
  for (std::size_t i = 0; i < state.optimizer.size(); ++i) {
    Kokkos::deep_copy(state.optimizer[i], optimizer.state()[i]);
  }
}

void StateCopy::take(const std::vector<SavedState>& averager) {
  state.averager.clear();
  averager_.resize(averager.size());
  for (std::size_t i = 0; i < averager.size(); ++i) {
    const std::span<const std::byte> bytes = bytes_of(averager[i].values);
    averager_[i].assign(bytes.begin(), bytes.end());
    const auto copied = [&](auto range) -> Numbers {
      return std::span(reinterpret_cast<decltype(range.data())>(averager_[i].data()), range.size());
    };
    state.averager.push_back({averager[i].name, std::visit(copied, averager[i].values)});
  }
}

double StateCopy::bytes() const {
  double bytes = 0;
  for (const auto& buffer : buffers_) bytes += static_cast<double>(buffer.size() * sizeof(float));
  for (const auto& part : averager_) bytes += static_cast<double>(part.size());
  return bytes;
}

EpochSums read_state(const Communicator& comm, const RunStart& start, bool reset_optimizer, const Replica& replica,
                     const Optimizer& optimizer) {
  const bool own_rows = start.header.ranks == comm.ranks();
  const StateCopy copy(replica.parameters.extent(0), replica.statistics.extent(0), optimizer.state().size());
  const EpochSums sums = own_rows ? read_checkpoint(comm, start.checkpoint, copy.state)
                                  : read_checkpoint_as_mean(comm, start.checkpoint, copy.state);
  Kokkos::deep_copy(replica.parameters, copy.state.parameters);
  Kokkos::deep_copy(replica.statistics, copy.state.statistics);
  for (std::size_t i = 0; i < copy.state.optimizer.size(); ++i) {
    if (reset_optimizer && !own_rows) {
      Kokkos::deep_copy(optimizer.state()[i], 0.0F);
    } else {
      Kokkos::deep_copy(optimizer.state()[i], copy.state.optimizer[i]);
    }
  }
  return sums;
}

RunFiles::RunFiles(const Communicator& comm, const RunConfig& config, ClaimedFolder& folder, const Network& network,
                   const Optimizer& optimizer, ExistingRun existing, const RunStart& start, const FileKeeper& keeper)
    : world_(keeper.world),
      comm_(comm),
      keeps_(keeper.keeps),
      config_(config),
      folder_(folder.folder()),
      parameters_(network.parameters()),
      statistics_(network.statistics()),
      copy_(keeps_ ? network.parameter_count() : 0, keeps_ ? network.statistic_count() : 0, optimizer.state().size()),
      worker_(comm) {
  world_.together([&] {
    if (!keeps_) return;
    if (start.checkpoint.empty()) {
      begin(folder, existing);
    } else {
      go_on(folder, start);
    }
  });
}

RunFiles::~RunFiles() = default;

void RunFiles::begin(ClaimedFolder& folder, ExistingRun existing) {
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    prepare_run_folder(folder_, to_toml(config_), existing);
    prepare_checkpoints(folder_);
    folder.sign();
  });
  metrics_ =
      std::make_unique<MetricsFile>(worker_.comm(), folder_.metrics(), -1, -1, metric_of(config_.loss.name).name);
}

void RunFiles::go_on(ClaimedFolder& folder, const RunStart& start) {
  comm_.together([&] {  // before anything is changed
    if (comm_.rank() == 0) prepare_checkpoints(folder_);
  });
  metrics_ = std::make_unique<MetricsFile>(worker_.comm(), folder_.metrics(), start.header.step, start.header.epoch,
                                           metric_of(config_.loss.name).name);
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    prepare_run_folder(folder_, to_toml(config_), ExistingRun::keep);
    for (const std::string& path : start.damaged) set_aside(path);
    folder.sign();
    const std::string best = link_target(folder_, folder_.best());
    try {
      if (!best.empty()) {
        const CheckpointHeader of_best = read_checkpoint_header(best);
        best_ = {best, ranked_score(of_best), of_best.mean_model_loss};
      }
    } catch (const Error&) {
      best_ = {};  // gone or damaged: the next good one takes its place
    }
    publish(start.checkpoint, start.header);  // the job before may have ended between its checkpoint and the links
  });
}

void RunFiles::add_epoch(const EpochMetrics& row, std::vector<EdgeRecord> edges) {
  if (!keeps_) return;
  post([this, steps = take_steps(), row, edges = std::move(edges)] { write_epoch(steps, row, edges); });
}

void RunFiles::save(CheckpointHeader header, const Replica& replica, const Optimizer& optimizer,
                    const std::vector<SavedState>& averager, const EpochSums& sums, const std::string& failure) {
  finish();  // the copies are in use until then
  if (!keeps_) return;
  copy_.take(replica, optimizer);
  copy_.take(averager);
  copy_.state.sums = sums;
  post([this, steps = take_steps(), header = std::move(header), failure] {
    write_checkpoint(header, copy_, steps, failure);
  });
}

void RunFiles::finish() {
  if (comm_.ranks() == world_.ranks()) return worker_.wait();
  world_.together([this] { worker_.wait(); });  // the others would wait for ever for those that failed
}

std::shared_ptr<StateCopy> RunFiles::copy(const Replica& replica, const Optimizer& optimizer,
                                          const std::vector<SavedState>& averager, const EpochSums& sums) const {
  auto copy =
      std::make_shared<StateCopy>(replica.parameters.extent(0), replica.statistics.extent(0), optimizer.state().size());
  copy->take(replica, optimizer);
  copy->take(averager);
  copy->state.sums = sums;
  return copy;
}

void RunFiles::write_epoch(const std::vector<StepRow>& steps, const EpochMetrics& row,
                           const std::vector<EdgeRecord>& edges) {
  add_to_metrics(steps);
  metrics_->add_epoch(row, edges);
}

void RunFiles::add_to_metrics(const std::vector<StepRow>& steps) {
  comm().together([&] {
    for (const StepRow& step : steps) metrics_->add_step(step.values, step.cell);
  });
}

void RunFiles::write_checkpoint(CheckpointHeader header, const StateCopy& copy, const std::vector<StepRow>& steps,
                                const std::string& failure) {
  const Clock::time_point begin = Clock::now();
  comm().together([&] {
    if (!failure.empty()) fail(failure);
  });
  // The metrics first: whoever resumes needs the rows of all steps that the checkpoint has done.
  add_to_metrics(steps);
  metrics_->flush(header.step);
  header.ranks = comm().ranks();
  header.config = to_toml(config_);
  const std::string path = folder_.checkpoint(header.step);
  halograd::write_checkpoint(comm(), path, header, copy.state, parameters_, statistics_, config_.output.compress);
  comm().together([&] {
    if (comm().rank() == 0) publish(path, header);
  });
  const double bytes = copy.bytes() * comm().ranks();
  const std::lock_guard<std::mutex> lock(mutex_);
  written_.push_back({path, header.step, bytes, std::chrono::duration<double>(Clock::now() - begin).count()});
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
