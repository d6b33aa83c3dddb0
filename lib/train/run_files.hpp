#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "io/checkpoint.hpp"
#include "io/file_worker.hpp"
#include "io/metrics.hpp"
#include "io/run_folder.hpp"
#include "io/run_lock.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "optimizers/optimizer.hpp"
#include "train/report.hpp"

namespace halograd {

/// A checkpoint that is on the disk, whole.
struct WrittenCheckpoint {
  std::string path;
  std::int64_t step = 0;
  double bytes = 0, seconds = 0;
};

/// What a training leaves in its run folder: metrics, and the newest and the best checkpoints. All of it is written by
/// a thread in the order in which it was asked for (io/file_worker.hpp): the training only waits while its state is
/// copied, or where the checkpoint before is not done. Calls are made by all ranks alike.
class RunFiles {
 public:
  /// Collective. Touches no file.
  RunFiles(const Communicator& comm, const RunConfig& config, const Network& network, const Optimizer& optimizer);
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  [[nodiscard]] const RunFolder& folder() const { return folder_; }

  /// Collective. Takes the folder for this job. Throws CollectiveError where another job has it.
  void lock(Report& report);
  /// Collective. The newest checkpoint that is whole, empty where there is none at all; those that are damaged are
  /// named. Throws CollectiveError where all are damaged, or one was written by a newer version of the program.
  std::string newest_whole_checkpoint(Report& report);
  /// Collective. Fills the replica and the optimizer's state from a checkpoint: each rank from its own row, or, on
  /// another number of ranks, all from the mean of the rows. Returns what was added up of the unfinished epoch.
  EpochSums read(const std::string& checkpoint, const CheckpointHeader& header, const Replica& replica,
                 const Optimizer& optimizer);

  /// Collective. A run from its beginning.
  void begin(bool overwrite);
  /// Collective. A run that goes on from a checkpoint: the metrics are cut back to its steps and epochs.
  void go_on(const CheckpointHeader& header);

  /// Local; the rows come to the disk with the next of the following.
  void add_step(const StepMetrics& row) { rows_.push_back(row); }
  void add_epoch(const EpochMetrics& row, std::vector<EdgeRecord> edges);
  /// Copies the state and returns. `failure`: why this rank's state must not be kept, if so; the checkpoint then fails
  /// on all ranks.
  void save(CheckpointHeader header, const Replica& replica, const Optimizer& optimizer,
            const std::vector<SavedState>& averager, const EpochSums& sums, const std::string& failure);

  /// Of what was asked for so far and has failed; else empty. It may come at a different step on each rank.
  [[nodiscard]] std::string error() const { return worker_.error(); }
  /// What has come to the disk since the last call.
  std::vector<WrittenCheckpoint> written();
  /// Waits for all that was asked for. Throws the first failure.
  void finish() { worker_.wait(); }
  /// Waits for it after a failure of all ranks.
  void settle();

 private:
  using HostBuffer = Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace>;
  struct Best {
    std::string path;
    double score = -std::numeric_limits<double>::infinity(), loss = 0;  ///< the larger the score the better
  };

  void copy(const std::vector<SavedState>& averager);
  void publish(const std::string& path, const CheckpointHeader& header);

  const Communicator& comm_;
  RunConfig config_;
  RunFolder folder_;
  std::vector<NamedTensor> parameters_, statistics_;
  std::vector<HostBuffer> copies_;  ///< of the replica and the optimizer's state: what is being written
  ReplicaState state_;              ///< the same
  std::vector<std::vector<std::byte>> averager_copies_;  ///< what its averager part points to
  std::vector<StepMetrics> rows_;
  std::vector<std::string> damaged_;
  Best best_;                      // rank 0
  std::unique_ptr<RunLock> lock_;  // rank 0
  std::mutex mutex_;               // guards written_
  std::vector<WrittenCheckpoint> written_;
  std::unique_ptr<MetricsFile> metrics_;
  FileWorker worker_;  // last: its thread ends before what it uses
};

}  // namespace halograd
