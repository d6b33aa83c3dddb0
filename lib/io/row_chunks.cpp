#include "io/row_chunks.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr std::uint32_t deflate_filter = 1U << 1U;  // the second

/// The first bytes of all values, then the second ones and so on.
std::vector<std::byte> shuffled(std::span<const std::byte> values, std::size_t value_bytes, std::size_t room) {
  std::vector<std::byte> bytes(room);
  const std::size_t count = values.size() / value_bytes, stride = room / value_bytes;
  for (std::size_t byte = 0; byte < value_bytes; ++byte) {
    for (std::size_t i = 0; i < count; ++i) bytes[byte * stride + i] = values[i * value_bytes + byte];
  }
  return bytes;
}

RowChunk compress_chunk(std::span<const std::byte> values, std::size_t value_bytes, std::size_t room) {
  std::vector<std::byte> bytes = shuffled(values, value_bytes, room);
  uLongf length = compressBound(bytes.size());
  RowChunk chunk{std::vector<std::byte>(length)};
  const int result = compress2(reinterpret_cast<Bytef*>(chunk.bytes.data()), &length,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 1);
  HALOGRAD_REQUIRE(result == Z_OK, "a checkpoint's values cannot be compressed: zlib's status is ", result);
  if (length >= room) return {std::move(bytes), deflate_filter};
  chunk.bytes.resize(length);
  chunk.bytes.shrink_to_fit();
  return chunk;
}

std::size_t chunk_length(const ReplicaDataset& shape) {
  return shape.chunk().back();
}

std::size_t chunks_of_part(const ReplicaDataset& shape) {
  const std::size_t length = chunk_length(shape);
  return (static_cast<std::size_t>(shape.length) + length - 1) / length;
}

}  // namespace

std::vector<RowChunk> compress_rows(const std::vector<ReplicaDataset>& datasets,
                                    const std::vector<std::vector<Numbers>>& buffers) {
  std::vector<RowChunk> chunks;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    for (const Numbers& part : buffers[i]) {
      const std::span<const std::byte> bytes = bytes_of(part);
      const std::size_t value_bytes = bytes.size() / count_of(part), room = chunk_length(datasets[i]) * value_bytes;
      for (std::size_t begin = 0; begin < bytes.size(); begin += room) {
        const auto values = bytes.subspan(begin, std::min(room, bytes.size() - begin));
        chunks.push_back(compress_chunk(values, value_bytes, room));
      }
    }
  }
  return chunks;
}

std::vector<RowChunkSize> sizes_of(const std::vector<RowChunk>& chunks) {
  std::vector<RowChunkSize> sizes;
  sizes.reserve(chunks.size());
  for (const RowChunk& chunk : chunks) sizes.push_back({chunk.bytes.size(), chunk.skipped});
  return sizes;
}

std::size_t chunks_of_row(const ReplicaDataset& shape) {
  return static_cast<std::size_t>(shape.parts) * chunks_of_part(shape);
}

std::vector<std::int64_t> place_chunks(const Hdf5Dataset& dataset, const ReplicaDataset& shape, std::int64_t row,
                                       std::span<const RowChunkSize> sizes, const std::string& path) {
  std::vector<std::int64_t> places;
  std::vector<std::byte> nothing;
  const std::size_t of_part = chunks_of_part(shape);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<hsize_t> at{static_cast<hsize_t>(row)};
    if (shape.by_part) at.push_back(i / of_part);
    at.push_back(i % of_part * chunk_length(shape));
    nothing.resize(std::max<std::size_t>(nothing.size(), sizes[i].bytes));
    HALOGRAD_HDF5(H5Dwrite_chunk(dataset, H5P_DEFAULT, sizes[i].skipped, at.data(), sizes[i].bytes, nothing.data()),
                  path, shape.path);
    unsigned skipped = 0;
    haddr_t place = 0;
    hsize_t bytes = 0;
    HALOGRAD_HDF5(H5Dget_chunk_info_by_coord(dataset, at.data(), &skipped, &place, &bytes), path, shape.path);
    HALOGRAD_REQUIRE(place != HADDR_UNDEF && bytes == sizes[i].bytes, path, ": ", shape.path, ": HDF5 keeps ", bytes,
                     " bytes for a chunk of ", sizes[i].bytes);
    places.push_back(static_cast<std::int64_t>(place));
  }
  return places;
}

}  // namespace halograd
