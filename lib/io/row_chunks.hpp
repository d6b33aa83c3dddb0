#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hdf5/handles.hpp"
#include "io/checkpoint_layout.hpp"

/// Compressed rows of a checkpoint without parallel HDF5: each rank compresses its own chunks as HDF5's filters would,
/// one of them has HDF5 make room for all, and each writes its own there.
namespace halograd {

/// A chunk as the filters shuffle and deflate (level 1) leave it.
struct RowChunk {
  std::vector<std::byte> bytes;
  std::uint32_t skipped = 0;  ///< bit i: filter i was not applied
};

/// How much room it needs.
struct RowChunkSize {
  std::uint64_t bytes = 0;
  std::uint32_t skipped = 0;
};

/// How many chunks a row has, of all its parts.
std::size_t chunks_of_row(const ReplicaDataset& shape);

/// This rank's chunks of the datasets, whose rows' parts `buffers` are: by dataset, part and place. The last of a part
/// is filled up with zeros.
std::vector<RowChunk> compress_rows(const std::vector<ReplicaDataset>& datasets,
                                    const std::vector<std::vector<Numbers>>& buffers);
std::vector<RowChunkSize> sizes_of(const std::vector<RowChunk>& chunks);

/// For one process: makes room for the chunks of a row of a dataset, of these sizes. Returns where in the file each
/// begins.
std::vector<std::int64_t> place_chunks(const Hdf5Dataset& dataset, const ReplicaDataset& shape, std::int64_t row,
                                       std::span<const RowChunkSize> sizes, const std::string& path);

}  // namespace halograd
