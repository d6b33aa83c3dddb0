#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hdf5/handles.hpp"
#include "io/checkpoint.hpp"
#include "io/formats.hpp"
#include "support/numbers.hpp"

/// What the writer and the readers of a checkpoint share: names, extents, checksums and the transfer of rows.
namespace halograd {

/// Values of one transfer. MPI-IO counts in int bytes, so a row of 2 GB or more has to go in pieces; and nobody waits
/// longer than for one for the HDF5 lock.
inline constexpr std::size_t checkpoint_piece = std::size_t{1} << 22;

/// The most values of a chunk of a compressed row. A stretch of a row is cut into as few alike ones as can be.
inline constexpr std::int64_t checkpoint_chunk = std::int64_t{1} << 18;

inline constexpr const char* averager_group = "/replica/averager";

/// Extents of the datasets of /replica.
struct CheckpointLayout {
  std::int64_t ranks = 0;              ///< R
  std::int64_t parameters = 0;         ///< P
  std::int64_t optimizer_buffers = 0;  ///< S
  std::int64_t statistics = 0;         ///< Q
  std::vector<StateLayout> averager{};
  std::int64_t stretch = 0;  ///< of the parameters, the longest that one rank writes; 0: all, or it does not matter
  bool operator==(const CheckpointLayout&) const = default;
};

/// One dataset of /replica: row r is rank r's, `parts` flat ranges of `length` values each.
struct ReplicaDataset {
  std::string path;
  std::int64_t ranks = 0;
  std::int64_t parts = 1;
  std::int64_t length = 0;
  bool by_part = false;  ///< (R, parts, length) instead of (R, length)
  NumberType type = NumberType::float32;
  std::int64_t stretch = 0;  ///< the most values of a part that one rank writes; 0: all
  [[nodiscard]] std::vector<hsize_t> extents() const;
  [[nodiscard]] std::vector<hsize_t> chunk() const;  ///< where it is compressed: never of two rows, or of two stretches
};

/// The datasets that a checkpoint of this layout has (those without values are left out), always in this order.
std::vector<ReplicaDataset> replica_datasets(const CheckpointLayout& layout);

/// Those of /replica/averager alone, and what they are made of.
std::vector<ReplicaDataset> state_datasets(std::int64_t ranks, const std::vector<StateLayout>& states);
std::vector<StateLayout> state_layouts(const std::vector<SavedState>& states);

/// The rank's buffers that belong to each of them, in the same order.
std::vector<std::vector<Numbers>> replica_buffers(const ReplicaState& state);

/// The layout of a rank's state. Throws Error where the optimizer's buffers are not as long as the parameters.
CheckpointLayout layout_of(const ReplicaState& state, int ranks);

/// The root attributes. Throws Error where the file is no checkpoint of this program, or of a newer format.
CheckpointHeader read_header(const Hdf5File& file, const std::string& path);

/// Throws Error where a dataset of /replica is missing or of other extents than the rest.
CheckpointLayout read_layout(const Hdf5File& file, const std::string& path);

/// How a file holds them.
hid_t file_type(NumberType type);
inline std::size_t bytes_of_value(NumberType type) {
  return type == NumberType::float32 ? sizeof(float) : sizeof(double);
}

/// A buffer of floats as such a range.
Numbers numbers(HostVector<float> values);

/// CRC-32 (zlib) of the values' little-endian bytes, continued from `start`.
std::uint32_t checksum(std::span<const std::byte> values, std::uint32_t start = 0);
std::uint32_t checksum(const float* values, std::size_t count);

/// /replica/epoch_sums (R, 4): one row per rank; for one process. Reading throws Error where a checksum is wrong, and
/// returns `ranks` rows of 0 where the file, written between epochs, has none.
void write_epoch_sums(const Hdf5File& file, const std::vector<EpochSums>& rows, const std::string& path);
std::vector<EpochSums> read_epoch_sums(const Hdf5File& file, std::int64_t ranks, const std::string& path);

/// A row's part of a dataset of /replica, in pieces of at most `piece` values.
void read_part(const Hdf5Dataset& dataset, const ReplicaDataset& shape, std::int64_t row, std::int64_t part,
               const Numbers& values, const std::string& file, std::size_t piece = checkpoint_piece);

/// The checksums of a dataset's rows. Throws Error unless there is one for each: as they are not packed, a small file
/// cannot claim millions of ranks.
std::vector<std::uint32_t> read_row_checksums(const Hdf5Dataset& dataset, const std::string& object, std::int64_t rows,
                                              const std::string& file);

/// For one process: reads rows first, first + stride, ... of all datasets of /replica, and hands each part to
/// `use(dataset, row, part, values)`, where `dataset` counts as replica_datasets() does. Returns the rows whose
/// checksum is wrong: "/replica/parameters, row 3".
using UseRow = std::function<void(std::size_t dataset, std::int64_t row, std::int64_t part, const Numbers& values)>;
std::vector<std::string> read_every_row(const Hdf5File& file, const CheckpointLayout& layout, std::int64_t first,
                                        std::int64_t stride, const UseRow& use, const std::string& path);

/// For one process of `ranks` that look: reads its share of the file, rank 0 also what is there once. Throws Error
/// where that is damaged. A file of a newer format is not looked at.
void look_for_damage(const std::string& path, int rank, int ranks);

/// One dataset of /mean, as its attributes describe it.
struct MeanTensor {
  NamedTensor tensor;
  bool statistic = false;  ///< else a parameter
  std::size_t count = 0;   ///< values
  std::uint32_t crc = 0;
};

std::vector<MeanTensor> read_mean_tensors(const Hdf5File& file, const std::string& path);

/// Fills `values` (count). Throws Error where the checksum is wrong.
void read_mean_tensor(const Hdf5File& file, const MeanTensor& mean, float* values, const std::string& path);

}  // namespace halograd
