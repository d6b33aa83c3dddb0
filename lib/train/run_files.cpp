#include "train/run_files.hpp"

#include <chrono>
#include <sstream>
#include <utility>

#include "io/checkpoint_store.hpp"
#include "kernels/error.hpp"
#include "mpi/wait.hpp"
#include "run/write.hpp"
#include "train/checkpoint_model.hpp"

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
  return header.metric == "error" ? -header.mean_model_score : header.mean_model_score;
}

}  // namespace

RunFiles::RunFiles(const Communicator& comm, const RunConfig& config, const Network& network,
                   const Optimizer& optimizer)
    : comm_(comm),
      config_(config),
      folder_{config.output.folder + "/" + config.name},
      parameters_(named_tensors(network.parameters())),
      statistics_(named_tensors(network.statistics())),
      worker_(comm.handle()) {
  copies_.emplace_back("halograd::saved_parameters", network.parameter_count());
  copies_.emplace_back("halograd::saved_statistics", network.statistic_count());
  for (const Buffer<float>& state : optimizer.state()) {
    copies_.emplace_back("halograd::saved_optimizer", state.extent(0));
  }
  state_.parameters = copies_[0];
  state_.statistics = copies_[1];
  state_.optimizer.assign(copies_.begin() + 2, copies_.end());
}

RunFiles::~RunFiles() = default;

void RunFiles::lock(Report& report) {
  bool held = true;
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    make_run_folder(folder_);
    lock_ = std::make_unique<RunLock>(folder_.path);
    held = lock_->held();
  });
  if (!held) report.line("The file system of " + folder_.path + " has no locks: nobody will notice a second job there");
}

std::string RunFiles::newest_whole_checkpoint(Report& report) {
  std::string list;
  comm_.together([&] {
    if (comm_.rank() == 0) list = joined(stored_checkpoints(folder_));
  });
  list = comm_.broadcast(list);
  std::string reasons;
  for (const std::string& path : split(list)) {
    const std::string damage = checkpoint_damage(comm_.handle(), path);
    if (damage.empty()) return path;
    report.line("Skipped a checkpoint that is damaged: " + damage);
    reasons += "\n  " + damage;
    damaged_.push_back(path);
  }
  comm_.together([&] {
    HALOGRAD_REQUIRE(damaged_.empty(), "no checkpoint in ", folder_.checkpoints(), " is whole:", reasons,
                     "\nbegin anew with --overwrite, or under another name (--set name=...)");
  });
  return "";
}

EpochSums RunFiles::read(const std::string& checkpoint, const CheckpointHeader& header, const Replica& replica,
                         const Optimizer& optimizer) {
  const bool own_rows = header.ranks == comm_.ranks();
  const EpochSums sums = own_rows ? read_checkpoint(comm_.handle(), checkpoint, state_)
                                  : read_checkpoint_as_mean(comm_.handle(), checkpoint, state_);
  const bool reset = !own_rows && config_.training.resumed_optimizer == "reset";
  Kokkos::deep_copy(replica.parameters, state_.parameters);
  Kokkos::deep_copy(replica.statistics, state_.statistics);
  for (std::size_t i = 0; i < state_.optimizer.size(); ++i) {
    if (reset) {
      Kokkos::deep_copy(optimizer.state()[i], 0.0F);
    } else {
      Kokkos::deep_copy(optimizer.state()[i], state_.optimizer[i]);
    }
  }
  return sums;
}

void RunFiles::begin(bool overwrite) {
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    prepare_run_folder(folder_, to_toml(config_), overwrite ? ExistingRun::overwrite : ExistingRun::refuse);
    prepare_checkpoints(folder_);
    lock_->sign();
  });
  metrics_ = std::make_unique<MetricsFile>(worker_.comm(), folder_.metrics(), -1, -1, metric_of(config_.loss));
}

void RunFiles::go_on(const CheckpointHeader& header) {
  comm_.together([&] {  // before anything is changed
    if (comm_.rank() == 0) prepare_checkpoints(folder_);
  });
  metrics_ = std::make_unique<MetricsFile>(worker_.comm(), folder_.metrics(), header.step, header.epoch,
                                           metric_of(config_.loss));
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    prepare_run_folder(folder_, to_toml(config_), ExistingRun::keep);
    for (const std::string& path : damaged_) set_aside(path);
    lock_->sign();
    const std::string best = link_target(folder_, folder_.best());
    try {
      if (best.empty()) return;
      const CheckpointHeader of_best = read_checkpoint_header(best);
      best_ = {best, ranked_score(of_best), of_best.mean_model_loss};
    } catch (const Error&) {
      best_ = {};  // gone or damaged: the next good one takes its place
    }
  });
}

void RunFiles::settle() {
  try {
    worker_.wait();
  } catch (const std::exception&) {
    return;  // the failure that ends the training is told, not what followed from it
  }
}

void RunFiles::add_epoch(const EpochMetrics& row, std::vector<EdgeRecord> edges) {
  worker_.post([this, rows = std::move(rows_), row, edges = std::move(edges)] {
    for (const StepMetrics& step : rows) metrics_->add_step(step);
    metrics_->add_epoch(row, edges);
  });
  rows_.clear();
}

void RunFiles::copy(const std::vector<SavedState>& averager) {
  state_.averager.clear();
  averager_copies_.resize(averager.size());
  for (std::size_t i = 0; i < averager.size(); ++i) {
    const std::span<const std::byte> bytes = bytes_of(averager[i].values);
    averager_copies_[i].assign(bytes.begin(), bytes.end());
    const auto copied = [&](auto range) -> Numbers {
      return std::span(reinterpret_cast<decltype(range.data())>(averager_copies_[i].data()), range.size());
    };
    state_.averager.push_back({averager[i].name, std::visit(copied, averager[i].values)});
  }
}

void RunFiles::save(CheckpointHeader header, const Replica& replica, const Optimizer& optimizer,
                    const std::vector<SavedState>& averager, const EpochSums& sums, const std::string& failure) {
  worker_.wait();  // the copies are in use until then
  Kokkos::deep_copy(state_.parameters, replica.parameters);
  Kokkos::deep_copy(state_.statistics, replica.statistics);
  for (std::size_t i = 0; i < state_.optimizer.size(); ++i) {
    Kokkos::deep_copy(state_.optimizer[i], optimizer.state()[i]);
  }
  copy(averager);
  state_.sums = sums;
  header.ranks = comm_.ranks();
  header.config = to_toml(config_);
  worker_.post([this, rows = std::move(rows_), header = std::move(header), failure] {
    const Clock::time_point begin = Clock::now();
    together(worker_.comm(), [&] {
      if (!failure.empty()) fail(failure);
    });
    // The metrics first: whoever resumes needs the rows of all steps that the checkpoint has done.
    for (const StepMetrics& step : rows) metrics_->add_step(step);
    metrics_->flush();
    const std::string path = folder_.checkpoint(header.step);
    write_checkpoint(worker_.comm(), path, header, state_, parameters_, statistics_, config_.output.compress);
    together(worker_.comm(), [&] {
      if (comm_.rank() == 0) publish(path, header);
    });
    double bytes = 0;
    for (const HostBuffer& copy : copies_) bytes += static_cast<double>(copy.size() * sizeof(float)) * comm_.ranks();
    for (const auto& copy : averager_copies_) bytes += static_cast<double>(copy.size()) * comm_.ranks();
    const std::lock_guard<std::mutex> lock(mutex_);
    written_.push_back({path, header.step, bytes, std::chrono::duration<double>(Clock::now() - begin).count()});
  });
  rows_.clear();
}

void RunFiles::publish(const std::string& path, const CheckpointHeader& header) {
  point_link(folder_.newest(), path);
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
