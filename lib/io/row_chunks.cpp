#include "io/row_chunks.hpp"

#include <zlib.h>

#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr std::uint32_t deflate_filter = 1U << 1U;  // the second

/// The first bytes of all values, then the second ones and so on.
std::vector<std::byte> shuffled(std::span<const std::byte> values, std::size_t value_bytes, std::size_t chunk) {
  std::vector<std::byte> bytes(chunk * value_bytes);
  const std::size_t count = values.size() / value_bytes;
  for (std::size_t byte = 0; byte < value_bytes; ++byte) {
    for (std::size_t i = 0; i < count; ++i) bytes[byte * chunk + i] = values[i * value_bytes + byte];
  }
  return bytes;
}

}  // namespace

RowChunk compress_chunk(std::span<const std::byte> values, std::size_t value_bytes, std::size_t chunk) {
  std::vector<std::byte> bytes = shuffled(values, value_bytes, chunk);
  uLongf length = compressBound(bytes.size());
  RowChunk compressed{std::vector<std::byte>(length)};
  const int result = compress2(reinterpret_cast<Bytef*>(compressed.bytes.data()), &length,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 1);
  HALOGRAD_REQUIRE(result == Z_OK, "a checkpoint's values cannot be compressed: zlib's status is ", result);
  if (length >= bytes.size()) return {std::move(bytes), deflate_filter};
  compressed.bytes.resize(length);
  compressed.bytes.shrink_to_fit();
  return compressed;
}

std::int64_t place_chunk(const Hdf5Dataset& dataset, const std::string& object, const std::vector<hsize_t>& at,
                         std::size_t bytes, std::uint32_t skipped, const std::string& path) {
  const std::vector<std::byte> nothing(bytes);
  HALOGRAD_HDF5(H5Dwrite_chunk(dataset, H5P_DEFAULT, skipped, at.data(), bytes, nothing.data()), path, object);
  unsigned skipped_there = 0;
  haddr_t place = 0;
  hsize_t bytes_there = 0;
  HALOGRAD_HDF5(H5Dget_chunk_info_by_coord(dataset, at.data(), &skipped_there, &place, &bytes_there), path, object);
  HALOGRAD_REQUIRE(place != HADDR_UNDEF && bytes_there == bytes, path, ": ", object, ": HDF5 keeps ", bytes_there,
                   " bytes for a chunk of ", bytes);
  return static_cast<std::int64_t>(place);
}

}  // namespace halograd
