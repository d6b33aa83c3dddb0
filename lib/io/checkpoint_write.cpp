#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "hdf5/files.hpp"
#include "hdf5/objects.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/parallel_file.hpp"
#include "kernels/error.hpp"
#include "mpi/wait.hpp"

namespace halograd {
namespace {

/// The mean over the ranks on rank 0 (others get nothing), the same bits whenever it is called with the same values:
/// each rank sums its share of the positions in double, in the order of the ranks, whatever MPI's reductions would do.
std::vector<float> mean_on_root(MPI_Comm comm, HostVector<float> values) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const std::size_t length = values.size();
  const std::size_t block = std::max<std::size_t>(1, (std::size_t{1} << 22) / static_cast<std::size_t>(ranks));
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<float> mean(rank == 0 ? length : 0), gathered, sums;
  std::vector<int> counts(ranks), starts(ranks), mine(ranks), mine_starts(ranks);
  for (std::size_t begin = 0; begin < length; begin += block * ranks) {
    for (int other = 0; other < ranks; ++other) {
      const std::size_t first = std::min(length, begin + other * block);
      counts[other] = static_cast<int>(std::min(block, length - first));
      starts[other] = static_cast<int>(first - begin);
    }
    const int share = counts[rank];
    for (int other = 0; other < ranks; ++other) {
      mine[other] = share;
      mine_starts[other] = other * share;
    }
    gathered.resize(static_cast<std::size_t>(share) * ranks);
    MPI_Ialltoallv(values.data() + begin, counts.data(), starts.data(), MPI_FLOAT, gathered.data(), mine.data(),
                   mine_starts.data(), MPI_FLOAT, comm, &request);
    wait_politely(request);
    sums.resize(static_cast<std::size_t>(share));
    for (int i = 0; i < share; ++i) {
      double sum = 0;
      for (int other = 0; other < ranks; ++other) sum += gathered[static_cast<std::size_t>(other) * share + i];
      sums[i] = static_cast<float>(sum / ranks);
    }
    MPI_Igatherv(sums.data(), share, MPI_FLOAT, rank == 0 ? mean.data() + begin : nullptr, counts.data(), starts.data(),
                 MPI_FLOAT, 0, comm, &request);
    wait_politely(request);
  }
  return mean;
}

/// Row r: rank r's checksums of the datasets, on rank 0.
std::vector<std::vector<std::uint32_t>> checksums_on_root(MPI_Comm comm, const ReplicaState& state) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<std::vector<std::uint32_t>> rows;
  for (const auto& buffers : replica_buffers(state)) {
    std::uint32_t crc = 0;
    for (const Numbers& buffer : buffers) crc = checksum(bytes_of(buffer), crc);
    std::vector<std::uint32_t> column(rank == 0 ? ranks : 0);
    MPI_Igather(&crc, 1, MPI_UINT32_T, column.data(), 1, MPI_UINT32_T, 0, comm, &request);
    wait_politely(request);
    rows.push_back(std::move(column));
  }
  return rows;
}

/// Every rank's sums, on rank 0.
std::vector<EpochSums> sums_on_root(MPI_Comm comm, const EpochSums& mine) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  std::vector<EpochSums> rows(rank == 0 ? ranks : 0);
  constexpr int bytes = sizeof(EpochSums);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Igather(&mine, bytes, MPI_BYTE, rows.data(), bytes, MPI_BYTE, 0, comm, &request);
  wait_politely(request);
  return rows;
}

void require_same_lengths(MPI_Comm comm, const CheckpointLayout& layout) {
  // the largest of x and of -x in one reduction
  std::uint32_t states = 0;
  for (const StateLayout& each : layout.averager) {
    const std::array<std::int64_t, 2> numbers{static_cast<std::int64_t>(each.type), each.length};
    states = checksum(std::as_bytes(std::span(numbers)), checksum(std::as_bytes(std::span(each.name)), states));
  }
  const std::array<std::int64_t, 4> mine{layout.parameters, layout.optimizer_buffers, layout.statistics, states};
  std::array<std::int64_t, 8> both{}, most{};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    both[i] = mine[i];
    both[i + mine.size()] = -mine[i];
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(both.data(), most.data(), 8, MPI_INT64_T, MPI_MAX, comm, &request);
  wait_politely(request);
  const bool same = most[0] == -most[4] && most[1] == -most[5] && most[2] == -most[6];
  HALOGRAD_REQUIRE(same, "the ranks' replicas differ in length: ", -most[4], " to ", most[0], " parameters, ", -most[5],
                   " to ", most[1], " optimizer buffers, ", -most[6], " to ", most[2], " statistics");
  HALOGRAD_REQUIRE(most[3] == -most[7], "the ranks' averagers differ in what they keep");
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

void write_mean(const Hdf5Group& group, const std::vector<NamedTensor>& tensors, const std::vector<float>& mean,
                const std::string& kind, const std::string& path) {
  for (const NamedTensor& tensor : tensors) {
    const std::string object = "/mean/" + tensor.layer + "/" + tensor.name;
    const bool named = !tensor.layer.empty() && !tensor.name.empty() && tensor.layer.find('/') == std::string::npos &&
                       tensor.name.find('/') == std::string::npos && tensor.layer != "." && tensor.name != ".";
    HALOGRAD_REQUIRE(named, path, ": ", object, ": a layer and a tensor need a name without '/'");
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

}  // namespace

void write_checkpoint(MPI_Comm comm, const std::string& path, const CheckpointHeader& header, const ReplicaState& state,
                      const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& statistics,
                      bool compress) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  CheckpointLayout layout;
  together(comm, [&] { layout = layout_of(state, ranks); });
  require_same_lengths(comm, layout);
  const std::vector<std::vector<std::uint32_t>> checksums = checksums_on_root(comm, state);
  const std::vector<EpochSums> sums = sums_on_root(comm, state.sums);
  const std::vector<float> mean_parameters = mean_on_root(comm, state.parameters);
  const std::vector<float> mean_statistics = mean_on_root(comm, state.statistics);

  // Rank 0 makes the file with all its metadata, the means and the room for the rows; then all ranks write their rows
  // at once. So what can go wrong goes wrong on one rank, and no other waits for it in a collective call.
  const std::string partial = path + ".partial";
  const auto create = [&] {
    if (rank != 0) return;
    ::unlink(partial.c_str());  // a process of a killed job may still have that one open
    const Hdf5Session session;
    const std::size_t bytes = file_bytes(layout, header, parameters.size() + statistics.size());
    Hdf5File file = create_hdf5(partial, H5F_LIBVER_V18, bytes);
    write_header(file, header, ranks, partial);
    {
      const Hdf5Group replica = create_group(file, "replica", partial, true);
      if (!layout.averager.empty()) create_group(file, averager_group, partial, true);
      const auto datasets = replica_datasets(layout);
      for (std::size_t i = 0; i < datasets.size(); ++i) {
        const ReplicaDataset& each = datasets[i];
        const auto chunk = compress ? each.chunk() : std::vector<hsize_t>();
        write_attribute(make_dataset(file, each.path, each.extents(), partial, each.type, chunk), "crc32", checksums[i],
                        partial);
      }
      if (header.step_in_epoch > 0) write_epoch_sums(file, sums, partial);
      const Hdf5Group mean = create_group(file, "mean", partial, true);
      write_mean(mean, parameters, mean_parameters, "parameter", partial);
      write_mean(mean, statistics, mean_statistics, "statistic", partial);
    }
    HALOGRAD_HDF5(file.close(), partial, "file");
    if (compress) reserve_file(partial, bytes);  // closing gave the rows' room back; what they leave of it goes later
  };
  try {
    together(comm, create);
    ParallelFile file(comm, partial, H5F_ACC_RDWR);
    const auto datasets = replica_datasets(layout);
    const auto buffers = replica_buffers(state);
    for (std::size_t i = 0; i < datasets.size(); ++i) file.write_rows(datasets[i], buffers[i]);
    file.close();
    together(comm, [&] {
      if (rank == 0) publish_file(partial, path);
    });
  } catch (const Error&) {
    if (rank == 0) ::unlink(partial.c_str());
    throw;
  }
}

}  // namespace halograd
