#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "support/named_tensor.hpp"
#include "support/numbers.hpp"

namespace halograd {

/// What a checkpoint says of itself, in attributes of the file.
struct CheckpointHeader {
  std::int64_t step = 0;   ///< steps done
  std::int64_t epoch = 0;  ///< epochs done
  std::int64_t step_in_epoch = 0;
  int ranks = 0;
  std::string network;              ///< name
  std::string averager;             ///< name and order
  std::string topology;             ///< kind
  std::string config;               ///< the resolved run file
  std::string versions;             ///< of halograd, Kokkos, MPI, HDF5
  std::string input;                ///< extents of an image, "28x28x1"; empty in files of before
  std::string metric = "accuracy";  ///< what the score is: accuracy, iou, error
  double mean_model_score = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not evaluated at this step
  double mean_model_loss = std::numeric_limits<double>::quiet_NaN();
  std::int64_t optimizer_steps = 0;  ///< since the optimizer's state was zero; the fewest of any rank
};

/// What one rank has added up in an epoch that is not finished.
struct EpochSums {
  double loss = 0;              ///< over its images
  double images = 0;            ///< trained on
  double training_seconds = 0;  ///< spent on them
  double wait_seconds = 0;      ///< of these, waiting for other ranks
};

/// A part of an averager's state, without its values.
struct StateLayout {
  std::string name;
  NumberType type = NumberType::float32;
  std::int64_t length = 0;
  bool operator==(const StateLayout&) const = default;
};

/// What a rank has of a row that consecutive ranks share: each has a stretch of the parameters and of the optimizer's
/// buffers, and what its averager keeps.
struct RowShare {
  int place = 0, ranks = 1;           ///< the rank's place among them
  std::int64_t parameters = 0;        ///< of the row
  std::int64_t begin = 0;             ///< of the rank's stretch of them
  std::int64_t longest = 0;           ///< stretch: all but the last ones
  std::vector<StateLayout> averager;  ///< what all of them keep
};

/// One rank's state in host memory; the buffers belong to the caller. Lengths are the same on all ranks.
struct ReplicaState {
  HostVector<float> parameters;              ///< (P), or a stretch of them
  std::vector<HostVector<float>> optimizer;  ///< each as long: momentum, second moment, ...
  HostVector<float> statistics;              ///< (Q) batch-norm running mean and variance; may be empty
  EpochSums sums{};                          ///< kept where the header's step_in_epoch is not 0
  std::vector<SavedState> averager{};        ///< names without '/'
  std::optional<RowShare> share{};           ///< none: the row is this rank's alone
};

/// Collective. Writes one parallel-HDF5 file (docs/file-formats.md): to `path`.partial, flushed, then renamed, so that
/// `path` is always whole. /mean holds the mean of the replicas, tensor by tensor. `compress`: without loss, by HDF5's
/// own filters. `rows`: the states that this rank has, usually its own; the file's rows are those of rank 0, then those
/// of rank 1 and so on, at least one of each. Where ranks share rows, each comes with its part of one, and writes that;
/// statistics and sums are the first's. Throws Error on all ranks, with `path` as it was.
void write_checkpoint(const Communicator& comm, const std::string& path, const CheckpointHeader& header,
                      std::span<const ReplicaState> rows, const std::vector<NamedTensor>& parameters,
                      const std::vector<NamedTensor>& statistics, bool compress = false);
inline void write_checkpoint(const Communicator& comm, const std::string& path, const CheckpointHeader& header,
                             const ReplicaState& state, const std::vector<NamedTensor>& parameters,
                             const std::vector<NamedTensor>& statistics, bool compress = false) {
  write_checkpoint(comm, path, header, std::span(&state, 1), parameters, statistics, compress);
}

/// Reads the attributes. Throws Error where the file is no checkpoint of this program, or of a newer format.
CheckpointHeader read_checkpoint_header(const std::string& path);

/// Collective; `comm` has the checkpoint's number of ranks. Fills the buffers with this rank's rows. Throws Error on
/// all ranks where lengths differ (another network or optimizer), a checksum is wrong or the file is cut short; the
/// buffers are then undefined. Returns this rank's sums of the epoch, 0 between epochs.
EpochSums read_checkpoint(const Communicator& comm, const std::string& path, const ReplicaState& state);

/// Any number of ranks, each for itself: why the file's /replica/averager is not of these names, types and counts;
/// empty where it is. Throws Error where the file is no checkpoint.
std::string averager_state_difference(const std::string& path, const std::vector<StateLayout>& expected);

/// Collective; `comm` has the checkpoint's number of ranks, and the file holds this state. Fills it with this rank's
/// rows. Throws Error on all ranks where a checksum is wrong.
void read_averager_state(const Communicator& comm, const std::string& path, const std::vector<SavedState>& state);

/// Any number of ranks, each for itself: one replica's parameters and statistics. Throws Error as above.
void read_checkpoint_replica(const std::string& path, int replica, HostVector<float> parameters,
                             HostVector<float> statistics);

/// The same on any number of ranks: fills the buffers of all with the mean over the checkpoint's rows, the optimizer's
/// included. Every rank gets the same share of the epoch's sums.
EpochSums read_checkpoint_as_mean(const Communicator& comm, const std::string& path, const ReplicaState& state);

/// Collective, on any number of ranks: reads all of the file. What is wrong with it (cut short, a checksum, no
/// checkpoint at all), empty where it is whole. A file of a newer format is none of that. Throws CollectiveError where
/// a rank cannot open or read the file, for it may be whole.
std::string checkpoint_damage(const Communicator& comm, const std::string& path);

/// Any number of ranks, each for itself: the values that the network gives per label, as its last parameter has them.
int read_checkpoint_outputs(const std::string& path);

/// Any number of ranks, each for itself: the mean of the replicas' parameters and statistics.
void read_checkpoint_mean(const std::string& path, HostVector<float> parameters, HostVector<float> statistics);

}  // namespace halograd
