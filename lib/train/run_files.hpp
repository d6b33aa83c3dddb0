#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "io/checkpoint.hpp"
#include "io/file_worker.hpp"
#include "io/metrics.hpp"
#include "io/replica_memory.hpp"
#include "io/run_folder.hpp"
#include "io/run_lock.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "optimizers/optimizer.hpp"
#include "train/report.hpp"
#include "train/shards.hpp"

namespace halograd {

/// A checkpoint that is on the disk, whole.
struct WrittenCheckpoint {
  std::string path;
  std::int64_t step = 0;
  double bytes = 0, seconds = 0;
};

/// Where a run with this run file keeps its files.
RunFolder run_folder(const RunConfig& config);

/// A run folder that this job has taken for itself, as long as this lives.
class ClaimedFolder {
 public:
  /// Collective. Makes the folder where there is none. Throws CollectiveError where another job has it.
  ClaimedFolder(const Communicator& comm, const RunConfig& config, Report& report);

  [[nodiscard]] const RunFolder& folder() const { return folder_; }
  /// Leaves word of this job, for those who find the folder taken.
  void sign();

 private:
  RunFolder folder_;
  std::optional<RunLock> lock_;  ///< on rank 0
};

/// A checkpoint that a run does not start from, though it is newer.
struct SkippedCheckpoint {
  std::string path;
  bool damaged = false;  ///< else it could not be read, and may be whole
};

/// Where a call of the program starts from.
struct RunStart {
  std::string checkpoint;   ///< the newest that is whole; empty: the beginning
  CheckpointHeader header;  ///< the checkpoint's
  RunConfig before;         ///< the run file that it was written with
  std::vector<SkippedCheckpoint> skipped;

  /// Images of the unfinished epoch that the checkpoint has done.
  [[nodiscard]] std::int64_t images_of_epoch() const { return header.step_in_epoch * before.training.batch; }
};

/// Collective. The beginning, unless `resume` asks for the newest checkpoint that is whole and can be read; newer ones
/// are reported. Throws CollectiveError where there are others alone, a rank does not see one, or one was written by a
/// newer version of the program.
RunStart find_start(const Communicator& comm, const RunFolder& folder, bool resume, Report& report);

/// Where a state is kept: in the run folder, by all ranks in one file; or on the nodes, by each rank for itself and for
/// another one (io/local_copies.hpp).
enum class CheckpointPlace { run_folder, nodes };

/// Collective. Fills the replica and its optimizer's state from the checkpoint: each rank from its own row, or, on
/// another number of ranks, all from the mean of the rows (the optimizer's state from zero with `reset_optimizer`).
/// Returns what was added up of the unfinished epoch. `shards`: this rank's, which the optimizer's state is of.
EpochSums read_state(const Communicator& comm, const RunStart& start, bool reset_optimizer, const Replica& replica,
                     const Optimizer& optimizer, const Shards& shards);

/// Collective, with find_start()'s result: where the nodes have copies of a later step, they become a checkpoint of the
/// run folder, and the start. Where that fails, the start is left as it is, which is reported; throws CollectiveError
/// where it has no checkpoint either.
void take_up_local_copies(RunStart& start, const Communicator& comm, const RunConfig& config, const RunFolder& folder,
                          const Network& network, Report& report);

/// What a training leaves in its run folder: metrics, and the newest and the best checkpoints. All of it is written by
/// a thread in the order in which it was asked for (io/file_worker.hpp): the training only waits while its state is
/// copied, or where the checkpoint before is not done. Calls are made by all ranks alike. Where a group shares a
/// replica, its first rank writes the metrics' rows, and each its shard of a checkpoint's.
class RunFiles {
 public:
  /// Collective over all ranks, `world`. Begins a run's files (`existing`: what becomes of a run that the folder
  /// holds), or goes on with those of the checkpoint, with the metrics cut back to its steps and epochs.
  RunFiles(const Communicator& world, const ReplicaGroup& group, const RunConfig& config, ClaimedFolder& folder,
           const Network& network, const Optimizer& optimizer, ExistingRun existing, const RunStart& start);
  ~RunFiles() { stop(); }  // the thread, before what it uses
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  /// Local; the rows come to the disk with the next of the following.
  void add_step(const StepMetrics& row, const StepCell& cell) {
    if (has_rows_) rows_.push_back({row, cell});
  }
  void add_epoch(const EpochMetrics& row, std::vector<EdgeRecord> edges);
  /// Copies the state, and returns. `failure`: why this rank's state must not be kept, if so; the checkpoint then fails
  /// on all ranks.
  void save(CheckpointPlace place, CheckpointHeader header, const Replica& replica, const Optimizer& optimizer,
            const Shards& shards, const std::vector<SavedState>& averager, const EpochSums& sums,
            const Failure& failure);

  /// The first failure of what was asked for so far. Ranks may learn of it at different steps.
  [[nodiscard]] Failure error() const { return worker_.error(); }
  /// What has come to the disk since the last call.
  std::vector<WrittenCheckpoint> written();
  /// Why copies on the nodes could not be made since the last call, if so. The run can do without them.
  std::string local_failure();
  /// Waits for all that was asked for. Throws the first failure.
  void finish() { worker_.wait(); }
  /// The same, closes the metrics and removes the copies on the nodes: the last call that writes. Throws as finish().
  void close();

  // For a training whose ranks come to an epoch's end at different times: it posts, on all ranks in the same order,
  // what is to be done when all have come, and goes on.
  /// A copy of the state that nobody else uses. Collective over a group.
  [[nodiscard]] std::shared_ptr<ReplicaMemory> copy(const Replica& replica, const Optimizer& optimizer,
                                                    const Shards& shards, const std::vector<SavedState>& averager,
                                                    const EpochSums& sums) const;
  /// The steps that were added since the last call.
  std::vector<StepRow> take_steps() { return std::exchange(rows_, {}); }
  void post(std::function<void()> task) { worker_.post(std::move(task)); }
  /// Ends the thread, as FileWorker::stop().
  void stop() { worker_.stop(); }
  /// What was asked for and is not done.
  [[nodiscard]] std::size_t pending() const { return worker_.pending(); }
  // By posted tasks alone, collective over all ranks.
  [[nodiscard]] const Communicator& world() const { return worker_.comm(); }
  /// One rank of each replica: those with this one's place.
  [[nodiscard]] const Communicator& replicas() const { return replicas_; }
  void write_epoch(const std::vector<StepRow>& steps, const EpochMetrics& row, const std::vector<EdgeRecord>& edges);
  void write_checkpoint(CheckpointPlace place, CheckpointHeader header, const ReplicaMemory& copy,
                        const std::vector<StepRow>& steps, const Failure& failure);

 private:
  struct Best {
    std::string path;
    double score = -std::numeric_limits<double>::infinity(), loss = 0;  ///< the larger the score the better
  };

  void begin(ClaimedFolder& folder, ExistingRun existing);
  void go_on(ClaimedFolder& folder, const RunStart& start);
  void open_metrics(const CheckpointHeader* start);
  /// By the constructor and the thread: what the ranks that have rows of the metrics do together.
  void on_metrics(const std::function<void()>& work) const;
  void add_to_metrics(const std::vector<StepRow>& steps);
  void write_on_nodes(const CheckpointHeader& header, const ReplicaMemory& copy);
  void publish(const std::string& path, const CheckpointHeader& header);

  const Communicator& world_;
  bool has_rows_;  ///< whether this rank has rows of the metrics
  const RunConfig& config_;
  RunFolder folder_;
  std::vector<NamedTensor> parameters_, statistics_;
  std::unique_ptr<ReplicaMemory> copy_;  ///< what save() has written; null at a free pace, which has copy()
  std::vector<StepRow> rows_;
  Best best_;                 // rank 0
  std::string local_folder_;  ///< of copies on this node; empty where there are none
  std::mutex mutex_;          // guards written_ and local_failure_
  std::vector<WrittenCheckpoint> written_;
  std::string local_failure_;
  std::unique_ptr<MetricsFile> metrics_;  ///< null on ranks without rows
  FileWorker worker_;
  OwnedComm replicas_;  ///< for its tasks
};

}  // namespace halograd
