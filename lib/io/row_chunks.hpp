#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hdf5/handles.hpp"

/// Compressed rows of a checkpoint without parallel HDF5: each rank compresses its own chunks as HDF5's filters would,
/// one of them has HDF5 make room for all, and each writes its own there.
namespace halograd {

/// A chunk as the filters shuffle and deflate (level 1) leave it.
struct RowChunk {
  std::vector<std::byte> bytes;
  std::uint32_t skipped = 0;  ///< bit i: filter i was not applied
};

/// `values`: of a dataset's chunk of `chunk` values, which is filled up with zeros where they are fewer.
RowChunk compress_chunk(std::span<const std::byte> values, std::size_t value_bytes, std::size_t chunk);

/// For one process: makes room for the chunk of a dataset that begins with the value at `at`. Returns where in the file
/// it is.
std::int64_t place_chunk(const Hdf5Dataset& dataset, const std::string& object, const std::vector<hsize_t>& at,
                         std::size_t bytes, std::uint32_t skipped, const std::string& path);

}  // namespace halograd
