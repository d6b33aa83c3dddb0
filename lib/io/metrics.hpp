#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mpi/communicator.hpp"
#include "support/edge_record.hpp"

namespace halograd {

/// One rank's row of /step.
struct StepMetrics {
  double loss = 0;  ///< mean over this rank's images
  double learning_rate = 0;
  double images_per_second = 0;  ///< of this rank
  double wait_seconds = 0;       ///< for neighbours
  double compute_seconds = 0;    ///< forward and backward
  double update_seconds = 0;     ///< mixing and optimizer
  double data_seconds = 0;       ///< waiting for a batch
  double progress_seconds = 0;   ///< processor time of the thread that keeps MPI going
  std::int64_t bytes_sent = 0;
  std::int64_t skipped = 0;           ///< 1: the rank left its update out
  std::int64_t averaging_period = 0;  ///< steps from one exchange to the next; 0: none
  std::int64_t samples = 0;           ///< images that all ranks together had been dealt before the step
  std::int64_t rank = 0;              ///< whose step it is; MetricsFile sets this
};

/// Where a step's values stand in /step: its row, and which of the row's columns.
struct StepCell {
  std::int64_t row = 0;
  int column = 0;
};

struct StepRow {
  StepMetrics values;
  StepCell cell;
};

/// One row of /epoch, as rank `r` sees it; from mean_model_loss on the same on all ranks.
struct EpochMetrics {
  double train_loss = 0;          ///< mean over the epoch's images of this rank
  double test_loss = 0;           ///< this rank's replica on the whole test set
  double test_score = 0;          ///< this rank's replica: the run's metric
  std::int64_t images = 0;        ///< that this rank trained on
  double evaluation_seconds = 0;  ///< of this rank, in which it did not train
  double wait_seconds = 0;        ///< of this rank, for others, outside of steps
  double mean_model_loss = 0;
  double mean_model_score = 0;    ///< the mean of the replicas
  double consensus_distance = 0;  ///< sqrt(mean_i ||x_i - mean x||^2)
  double seconds = 0;             ///< wall time of the epoch
  std::int64_t steps = 0;         ///< of all ranks, done at the end of the epoch
};

/// metrics.h5: /step/<quantity> (S,R) and /epoch/<quantity> (E,R) or (E), extendible, written by rank 0 in SWMR mode so
/// that h5py can read it during the run (docs/file-formats.md). Rows are collected on each rank and gathered once
/// per epoch.
class MetricsFile {
 public:
  /// Collective. A new file in the place of any that is there, or, with steps >= 0, an existing one cut back to so many
  /// steps and epochs (resume); also one that a crash left open. It has columns for the most ranks that the run has
  /// had; where there are fewer, the others' values are NaN, or 0 where they are integers. Throws Error on all ranks:
  /// no file to resume, or one with fewer rows.
  /// `metric` is what the scores are: it ends the names of their columns, test_accuracy and mean_model_accuracy.
  MetricsFile(const Communicator& comm, const std::string& path, std::int64_t steps = -1, std::int64_t epochs = -1,
              const std::string& metric = "accuracy");
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Local: the next row, in this rank's column.
  void add_step(const StepMetrics& row);
  /// Local: any cell after the rows that are in the file. A rank's rows must not descend. Cells that no rank gives hold
  /// NaN, or 0 where they are integers.
  void add_step(const StepMetrics& row, const StepCell& cell);
  /// Collective: appends it, the steps up to row.steps, and rows of /edge for what came over this rank's in-edges.
  void add_epoch(const EpochMetrics& row, const std::vector<EdgeRecord>& edges = {});
  /// Collective, after all rows: without it a failure to close the file is overlooked. Throws CollectiveError.
  void close();
  /// Collective: appends the steps alone, so that /step has rows for all that were added, and `steps` rows at the
  /// least.
  void flush(std::int64_t steps);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace halograd
