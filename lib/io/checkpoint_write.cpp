#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "hdf5/files.hpp"
#include "hdf5/objects.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/row_chunks.hpp"
#include "kernels/error.hpp"
#include "mpi/mpi_file.hpp"

namespace halograd {
namespace {

using Buffers = std::vector<std::vector<Numbers>>;  // of a row: by dataset and part

/// The datasets' checksums of all rows, by dataset and row, on rank 0.
std::vector<std::vector<std::uint32_t>> checksums_on_root(const Communicator& comm, const std::vector<Buffers>& rows) {
  std::vector<std::vector<std::uint32_t>> all;
  for (std::size_t dataset = 0; dataset < rows.front().size(); ++dataset) {
    std::vector<std::uint32_t> own;
    for (const Buffers& row : rows) {
      std::uint32_t crc = 0;
      for (const Numbers& part : row[dataset]) crc = checksum(bytes_of(part), crc);
      own.push_back(crc);
    }
    all.push_back(comm.join_on_root(own));
  }
  return all;
}

/// The mean of all rows' `values`, on rank 0: in `memory`, or the row itself where there is one.
std::span<const float> mean_on_root(const Communicator& comm, std::span<const ReplicaState> rows,
                                    HostVector<float> ReplicaState::*values, std::vector<float>& memory) {
  const HostVector<float> first = rows.front().*values;
  const std::size_t all = comm.sum(rows.size());
  if (all == 1) return {first.data(), first.size()};
  if (all == static_cast<std::size_t>(comm.ranks())) return memory = comm.mean_on_root(first);
  const float share = static_cast<float>(comm.ranks()) / static_cast<float>(all);
  std::vector<float> own(first.size());
  for (const ReplicaState& row : rows) {
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += share * (row.*values)(i);
  }
  return memory = comm.mean_on_root(HostVector<const float>(own.data(), own.size()));
}

void require_same_lengths(const Communicator& comm, const CheckpointLayout& layout) {
  std::uint32_t states = 0;
  for (const StateLayout& each : layout.averager) {
    const std::array<std::int64_t, 2> numbers{static_cast<std::int64_t>(each.type), each.length};
    states = checksum(std::as_bytes(std::span(numbers)), checksum(std::as_bytes(std::span(each.name)), states));
  }
  const std::array<std::int64_t, 4> mine{layout.parameters, layout.optimizer_buffers, layout.statistics, states};
  std::array<std::int64_t, 4> least = mine, most = mine;
  comm.smallest(std::span<std::int64_t>(least));
  comm.largest(std::span<std::int64_t>(most));
  const bool same = std::equal(least.begin(), least.begin() + 3, most.begin());
  HALOGRAD_REQUIRE(same, "the ranks' replicas differ in length: ", least[0], " to ", most[0], " parameters, ", least[1],
                   " to ", most[1], " optimizer buffers, ", least[2], " to ", most[2], " statistics");
  HALOGRAD_REQUIRE(least[3] == most[3], "the ranks' averagers differ in what they keep");
}

/// `chunk`: empty where the values are not compressed.
Hdf5Dataset make_dataset(hid_t parent, const std::string& name, const std::vector<hsize_t>& extents,
                         const std::string& file, NumberType type = NumberType::float32,
                         const std::vector<hsize_t>& chunk = {}) {
  DatasetStorage storage;
  storage.chunk = chunk;
  storage.deflate = !chunk.empty();
  storage.reserve = chunk.empty();  // so that a parallel write later touches raw data only
  return create_dataset(parent, name, file_type(type), extents, file, storage);
}

void write_header(const Hdf5File& file, const CheckpointHeader& header, std::int64_t ranks, const std::string& path) {
  write_attribute(file, "format", std::string(checkpoint_format), path);
  write_attribute(file, "format_version", checkpoint_format_version, path);
  write_attribute(file, "step", header.step, path);
  write_attribute(file, "epoch", header.epoch, path);
  write_attribute(file, "step_in_epoch", header.step_in_epoch, path);
  write_attribute(file, "optimizer_steps", header.optimizer_steps, path);
  write_attribute(file, "ranks", ranks, path);
  if (!std::isnan(header.mean_model_loss)) {
    write_attribute(file, "metric", header.metric, path);
    write_attribute(file, "mean_model_" + header.metric, header.mean_model_score, path);
    write_attribute(file, "mean_model_loss", header.mean_model_loss, path);
  }
  write_attribute(file, "network", header.network, path);
  write_attribute(file, "averager", header.averager, path);
  write_attribute(file, "topology", header.topology, path);
  write_attribute(file, "config", header.config, path);
  write_attribute(file, "versions", header.versions, path);
  write_attribute(file, "input", header.input, path);
}

void write_mean(const Hdf5Group& group, const std::vector<NamedTensor>& tensors, std::span<const float> mean,
                const std::string& kind, const std::string& path) {
  for (const NamedTensor& tensor : tensors) {
    const std::string object = "/mean/" + tensor.layer + "/" + tensor.name;
    const bool named = !tensor.layer.empty() && !tensor.name.empty() && tensor.layer.find('/') == std::string::npos &&
                       tensor.name.find('/') == std::string::npos && tensor.layer != "." && tensor.name != ".";
    HALOGRAD_REQUIRE(named, path, ": ", object, ": the names of a layer and a tensor must not be empty or hold '/'");
    const std::vector<hsize_t> extents(tensor.extents.begin(), tensor.extents.end());
    const auto count = std::accumulate(extents.begin(), extents.end(), std::size_t{1}, std::multiplies<>());
    HALOGRAD_REQUIRE(tensor.offset <= mean.size() && count <= mean.size() - tensor.offset, path, ": ", object,
                     ": values ", tensor.offset, " to ", tensor.offset + count, " lie outside the replica's ",
                     mean.size(), " ", kind, "s");
    const float* values = mean.data() + tensor.offset;
    const Hdf5Group layer = has_link(group, tensor.layer, path) ? open_group(group, tensor.layer, path)
                                                                : create_group(group, tensor.layer, path, true);
    const Hdf5Dataset dataset = make_dataset(layer, tensor.name, extents, path);
    write_dataset(dataset, H5T_NATIVE_FLOAT, values, object, path);
    write_attribute(dataset, "kind", kind, path);
    write_attribute(dataset, "offset", static_cast<std::int64_t>(tensor.offset), path);
    write_attribute(dataset, "crc32", std::vector<std::uint32_t>{checksum(values, count)}, path);
  }
}

/// At least the bytes that the file will have: the values, a gap before each large dataset, and its metadata,
/// generously.
std::size_t file_bytes(const CheckpointLayout& layout, const CheckpointHeader& header, std::size_t tensors) {
  const std::int64_t row = layout.parameters * (1 + layout.optimizer_buffers) + layout.statistics;
  const std::int64_t mean = layout.parameters + layout.statistics;
  const auto values = static_cast<std::size_t>(layout.ranks * row + mean) * sizeof(float);
  std::size_t states = 0;
  for (const StateLayout& each : layout.averager) {
    states += static_cast<std::size_t>(layout.ranks * each.length) * sizeof(double) + mebibyte;
  }
  const std::size_t gaps = std::min(tensors + 3, values / mebibyte + 1) * mebibyte;
  const auto a_rank = static_cast<std::size_t>(layout.ranks) * (4 * sizeof(std::uint32_t) + sizeof(EpochSums));
  return values + states + gaps + tensors * 4096 + a_rank + header.config.size() + header.versions.size() + mebibyte;
}

/// Where the parts of a row of a dataset that is not compressed begin.
std::vector<std::int64_t> places_of_parts(const Hdf5Dataset& dataset, const ReplicaDataset& shape, std::int64_t row) {
  const std::int64_t bytes = static_cast<std::int64_t>(H5Dget_storage_size(dataset)) / (shape.ranks * shape.parts);
  std::vector<std::int64_t> places;
  for (std::int64_t part = 0; part < shape.parts; ++part) {
    places.push_back(static_cast<std::int64_t>(H5Dget_offset(dataset)) + (row * shape.parts + part) * bytes);
  }
  return places;
}

/// What rank 0 knows of all rows when it makes the file.
struct RowsOnRoot {
  bool compress = false;
  std::vector<RowChunkSize> chunks;                   ///< row by row; empty where they are not compressed
  std::vector<std::vector<std::uint32_t>> checksums;  ///< by dataset and row
  std::vector<EpochSums> sums;                        ///< by row
  std::span<const float> mean_parameters, mean_statistics;
};

/// Makes /replica with room for all rows. Returns where in the file what the ranks write begins, chunks or whole parts:
/// by row, dataset and part.
std::vector<std::int64_t> make_rows(const Hdf5File& file, const CheckpointLayout& layout, const RowsOnRoot& rows,
                                    const std::string& path) {
  const Hdf5Group replica = create_group(file, "replica", path, true);
  if (!layout.averager.empty()) create_group(file, averager_group, path, true);
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(layout.ranks));  // by row
  const std::vector<ReplicaDataset> datasets = replica_datasets(layout);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const ReplicaDataset& each = datasets[i];
    const auto chunk = rows.compress ? each.chunk() : std::vector<hsize_t>();
    const Hdf5Dataset dataset = make_dataset(file, each.path, each.extents(), path, each.type, chunk);
    write_attribute(dataset, "crc32", rows.checksums[i], path);
    const std::size_t chunks = chunks_of_row(each), chunks_of_all = rows.chunks.size() / places.size();
    for (std::size_t row = 0; row < places.size(); ++row) {
      std::vector<std::int64_t>& own = places[row];
      const auto found =
          rows.compress ? place_chunks(dataset, each, static_cast<std::int64_t>(row),
                                       std::span(rows.chunks).subspan(row * chunks_of_all + own.size(), chunks), path)
                        : places_of_parts(dataset, each, static_cast<std::int64_t>(row));
      own.insert(own.end(), found.begin(), found.end());
    }
  }
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& own : places) all.insert(all.end(), own.begin(), own.end());
  return all;
}

/// For one process: the file with all its metadata, the means and the room for the rows. Returns what make_rows does.
std::vector<std::int64_t> make_file(const std::string& path, const CheckpointHeader& header,
                                    const CheckpointLayout& layout, const RowsOnRoot& rows,
                                    const std::vector<NamedTensor>& parameters,
                                    const std::vector<NamedTensor>& statistics) {
  ::unlink(path.c_str());  // a process of a killed job may still have that one open
  const Hdf5Session session;
  constexpr std::size_t index_bytes = 128;  // of a chunk
  const std::size_t tensors = parameters.size() + statistics.size();
  Hdf5File file = create_hdf5(path, file_bytes(layout, header, tensors) + rows.chunks.size() * index_bytes);
  write_header(file, header, layout.ranks, path);
  std::vector<std::int64_t> places = make_rows(file, layout, rows, path);
  if (header.step_in_epoch > 0) write_epoch_sums(file, rows.sums, path);
  {
    const Hdf5Group mean = create_group(file, "mean", path, true);
    write_mean(mean, parameters, rows.mean_parameters, "parameter", path);
    write_mean(mean, statistics, rows.mean_statistics, "statistic", path);
  }
  HALOGRAD_HDF5(file.close(), path, "file");
  return places;
}

/// Each rank its pieces. HDF5 has no part in it: its own close writes, and where that fails on one rank, the others
/// wait for it for ever.
void write_pieces(const Communicator& comm, const std::string& path,
                  const std::vector<std::span<const std::byte>>& pieces, std::span<const std::int64_t> places) {
  static_assert(std::endian::native == std::endian::little, "files are little-endian");
  std::optional<MpiFile> file;
  comm.together([&] { file.emplace(comm, path); });
  comm.together([&] {
    for (std::size_t i = 0; i < pieces.size(); ++i) file->write(places[i], pieces[i]);
  });
  comm.together([&] { file->close(); });
}

}  // namespace

void write_checkpoint(const Communicator& comm, const std::string& path, const CheckpointHeader& header,
                      std::span<const ReplicaState> rows, const std::vector<NamedTensor>& parameters,
                      const std::vector<NamedTensor>& statistics, bool compress) {
  const bool root = comm.rank() == 0;
  CheckpointLayout layout;
  const int all_rows = comm.sum(static_cast<int>(rows.size()));
  comm.together([&] {
    HALOGRAD_REQUIRE(!rows.empty(), path, ": a rank has no row to write");
    layout = layout_of(rows.front(), all_rows);
    for (const ReplicaState& row : rows) {
      HALOGRAD_REQUIRE(layout_of(row, all_rows) == layout, path, ": the rows of a rank differ in length");
    }
  });
  require_same_lengths(comm, layout);

  std::vector<Buffers> buffers;
  std::vector<RowChunk> chunks;
  std::vector<std::span<const std::byte>> pieces;  // that this rank writes: parts of its rows, or chunks of them
  comm.together([&] {
    for (const ReplicaState& row : rows) {
      const Buffers& own = buffers.emplace_back(replica_buffers(row));
      if (compress) {
        for (RowChunk& chunk : compress_rows(replica_datasets(layout), own)) chunks.push_back(std::move(chunk));
        continue;
      }
      for (const std::vector<Numbers>& parts : own) {
        for (const Numbers& part : parts) pieces.emplace_back(bytes_of(part));
      }
    }
    for (const RowChunk& chunk : chunks) pieces.emplace_back(chunk.bytes);
  });
  std::vector<EpochSums> sums;
  for (const ReplicaState& row : rows) sums.push_back(row.sums);
  std::vector<float> parameters_memory, statistics_memory;
  const RowsOnRoot on_root{.compress = compress,
                           .chunks = comm.join_on_root(sizes_of(chunks)),
                           .checksums = checksums_on_root(comm, buffers),
                           .sums = comm.join_on_root(sums),
                           .mean_parameters = mean_on_root(comm, rows, &ReplicaState::parameters, parameters_memory),
                           .mean_statistics = mean_on_root(comm, rows, &ReplicaState::statistics, statistics_memory)};

  // Rank 0 makes the file; then all ranks write their rows at once. So what can go wrong goes wrong on one rank, and no
  // other waits for it in a collective call.
  const std::string partial = path + ".partial";
  const std::vector<std::size_t> pieces_of_rank = comm.gather(pieces.size());
  const auto own = pieces_of_rank.begin() + comm.rank();
  const auto first = std::accumulate(pieces_of_rank.begin(), own, std::size_t{0});
  std::vector<std::int64_t> places(std::accumulate(own, pieces_of_rank.end(), first));  // rank 0's, then 1's
  try {
    comm.together([&] {
      if (root) places = make_file(partial, header, layout, on_root, parameters, statistics);
    });
    comm.broadcast(std::span(places));
    write_pieces(comm, partial, pieces, std::span(places).subspan(first, pieces.size()));
    comm.together([&] {
      if (root) publish_file(partial, path);
    });
  } catch (const Error&) {
    if (root) ::unlink(partial.c_str());
    throw;
  }
}

}  // namespace halograd
