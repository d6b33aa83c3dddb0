#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "hdf5/objects.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/parallel_file.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

void require_lengths(const CheckpointLayout& found, std::size_t parameters, std::size_t statistics,
                     const std::string& network, const std::string& path) {
  const bool same = found.parameters == static_cast<std::int64_t>(parameters) &&
                    found.statistics == static_cast<std::int64_t>(statistics);
  HALOGRAD_REQUIRE(same, path, ": is a checkpoint of the network '", network, "' with ", found.parameters,
                   " parameters and ", found.statistics, " statistics per replica; this network has ", parameters,
                   " and ", statistics);
}

constexpr std::int64_t any_ranks = 0;

/// Throws Error unless the file holds replicas like `expected`, one per rank. Returns the ranks' sums of the epoch.
std::vector<EpochSums> look_into(const std::string& path, const CheckpointLayout& expected) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  const CheckpointHeader header = read_header(file, path);
  const CheckpointLayout found = read_layout(file, path);
  HALOGRAD_REQUIRE(expected.ranks == any_ranks || found.ranks == expected.ranks, path, ": is a checkpoint of ",
                   found.ranks, " ranks; there are ", expected.ranks, " now, and each rank needs its own replica");
  require_lengths(found, static_cast<std::size_t>(expected.parameters), static_cast<std::size_t>(expected.statistics),
                  header.network, path);
  HALOGRAD_REQUIRE(found.optimizer_buffers == expected.optimizer_buffers, path, ": holds ", found.optimizer_buffers,
                   " optimizer buffers per replica; this optimizer has ", expected.optimizer_buffers);
  return read_epoch_sums(file, found.ranks, path);
}

/// Collective: sums over the ranks and divides, in double.
void mean_over(const Communicator& comm, std::vector<double>& sums, double count, std::span<float> means) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (std::size_t begin = 0; begin < sums.size(); begin += piece) {
    comm.sum(std::span(sums).subspan(begin, std::min(piece, sums.size() - begin)));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) means[i] = static_cast<float>(sums[i] / count);
}

}  // namespace

void look_for_damage(const std::string& path, int rank, int ranks) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  require_format_name(file, checkpoint_format, path);
  if (read_integer_attribute(file, "format_version", path) > checkpoint_format_version) return;
  const CheckpointHeader header = read_header(file, path);
  const CheckpointLayout layout = read_layout(file, path);
  HALOGRAD_REQUIRE(layout.ranks == header.ranks, path, ": has ", layout.ranks, " rows, but its header says ",
                   header.ranks, " ranks");
  const auto damaged = read_every_row(
      file, layout, rank, ranks, [](auto&&...) {}, path);
  HALOGRAD_REQUIRE(damaged.empty(), path, ": ", damaged.front(), ": the checksum is wrong; the file is damaged");
  if (rank != 0) return;
  read_epoch_sums(file, layout.ranks, path);
  std::vector<float> values;
  for (const MeanTensor& mean : read_mean_tensors(file, path)) {
    values.resize(mean.count);
    read_mean_tensor(file, mean, values.data(), path);
  }
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  return read_header(file, path);
}

EpochSums read_checkpoint(const Communicator& comm, const std::string& path, const ReplicaState& state) {
  const int rank = comm.rank(), ranks = comm.ranks();
  CheckpointLayout layout;
  std::vector<EpochSums> all_sums;
  // one rank looks first, alone: what is wrong with a file is found without a collective call that could stop half-way
  comm.together([&] {
    layout = layout_of(state, ranks);
    if (rank == 0) all_sums = look_into(path, layout);
  });
  const auto lengths = comm.broadcast(std::array{layout.parameters, layout.optimizer_buffers, layout.statistics});
  const CheckpointLayout of_first{ranks, lengths[0], lengths[1], lengths[2]};
  comm.together([&] {
    HALOGRAD_REQUIRE(layout == of_first, path, ": rank ", rank, " has another network or optimizer than rank 0");
  });
  ParallelFile file(comm, path);
  const auto datasets = replica_datasets(layout);
  const auto buffers = replica_buffers(state);
  for (std::size_t i = 0; i < datasets.size(); ++i) file.read_rows(datasets[i], buffers[i]);
  file.close();
  return comm.broadcast(all_sums)[static_cast<std::size_t>(rank)];
}

std::string averager_state_difference(const std::string& path, const std::vector<StateLayout>& expected) {
  const Hdf5Session session;
  const std::vector<StateLayout> found = read_layout(open_hdf5(path, H5F_ACC_RDONLY), path).averager;
  if (found == expected) return "";
  const auto names_of = [](const std::vector<StateLayout>& states) {
    std::vector<std::string> names;
    names.reserve(states.size());
    for (const StateLayout& each : states) names.push_back(each.name + " (" + std::to_string(each.length) + ")");
    return names.empty() ? "none" : listed(names);
  };
  return "the checkpoint holds " + names_of(found) + ", but this averager keeps " + names_of(expected);
}

void read_averager_state(const Communicator& comm, const std::string& path, const std::vector<SavedState>& state) {
  if (state.empty()) return;
  ParallelFile file(comm, path);
  const std::vector<ReplicaDataset> datasets = state_datasets(comm.ranks(), state_layouts(state));
  for (std::size_t i = 0; i < datasets.size(); ++i) file.read_rows(datasets[i], {state[i].values});
  file.close();
}

void read_checkpoint_replica(const std::string& path, int replica, HostVector<float> parameters,
                             HostVector<float> statistics) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  const CheckpointHeader header = read_header(file, path);
  const CheckpointLayout layout = read_layout(file, path);
  require_lengths(layout, parameters.size(), statistics.size(), header.network, path);
  HALOGRAD_REQUIRE(replica >= 0 && replica < layout.ranks, path, ": is a checkpoint of ", layout.ranks,
                   " ranks and has no replica ", replica);
  for (const ReplicaDataset& shape : replica_datasets(layout)) {
    const std::string name = shape.path;
    const bool of_statistics = name == "/replica/statistics";
    if (!of_statistics && name != "/replica/parameters") continue;
    const Numbers values = numbers(of_statistics ? statistics : parameters);
    const Hdf5Dataset dataset = open_hdf5_dataset(file, name, path);
    const auto expected = read_row_checksums(dataset, name, shape.ranks, path);
    read_part(dataset, shape, replica, 0, values, path);
    HALOGRAD_REQUIRE(checksum(bytes_of(values)) == expected[static_cast<std::size_t>(replica)], path, ": ", name,
                     " row ", replica, ": the checksum is wrong; the file is damaged");
  }
}

EpochSums read_checkpoint_as_mean(const Communicator& comm, const std::string& path, const ReplicaState& state) {
  const int rank = comm.rank(), ranks = comm.ranks();
  const auto buffers = replica_buffers(state);
  std::vector<std::vector<std::vector<double>>> sums(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (const Numbers& buffer : buffers[i]) sums[i].emplace_back(count_of(buffer), 0.0);
  }
  double rows = 0;
  EpochSums share;
  comm.together([&] {
    const auto all_sums = look_into(path, layout_of(state, any_ranks));
    rows = static_cast<double>(all_sums.size());
    for (const EpochSums& row : all_sums) {
      share.loss += row.loss / ranks;
      share.images += row.images / ranks;
      share.training_seconds += row.training_seconds / rows;  // the ranks' times run beside each other
      share.wait_seconds += row.wait_seconds / rows;
    }
    const Hdf5Session session;
    const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
    const auto add = [&](std::size_t dataset, std::int64_t /*row*/, std::int64_t part, const Numbers& values) {
      if (dataset >= sums.size()) return;  // the averager's
      const auto row = std::get<std::span<float>>(values);
      std::vector<double>& sum = sums[dataset][static_cast<std::size_t>(part)];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
    };
    const auto damaged = read_every_row(file, read_layout(file, path), rank, ranks, add, path);
    HALOGRAD_REQUIRE(damaged.empty(), path, ": ", damaged.front(), ": the checksum is wrong; the file is damaged");
  });
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::size_t part = 0; part < buffers[i].size(); ++part) {
      mean_over(comm, sums[i][part], rows, std::get<std::span<float>>(buffers[i][part]));
    }
  }
  return share;
}

std::string checkpoint_damage(const Communicator& comm, const std::string& path) {
  const int rank = comm.rank(), ranks = comm.ranks();
  // what a rank does not see, or no longer, is not damaged for that (NFS)
  const auto require_visible = [&] {
    comm.together([&] {
      const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      HALOGRAD_REQUIRE(descriptor >= 0, path, ": cannot be opened: ", system_reason());
      ::close(descriptor);
    });
  };
  require_visible();
  // one look may fail for want of memory or of descriptors, or for the disk; nothing is wrong with the file then
  std::string damage;
  for (int look = 0; look < 2; ++look) {
    try {
      comm.together([&] { look_for_damage(path, rank, ranks); });
      return "";
    } catch (const CollectiveError& error) {
      if (look > 0 && error.foreign() != Foreign::no_rank) throw;
      damage = error.what();
    }
    require_visible();
  }
  return damage;
}

int read_checkpoint_outputs(const std::string& path) {
  const Hdf5Session session;
  const std::vector<MeanTensor> tensors = read_mean_tensors(open_hdf5(path, H5F_ACC_RDONLY), path);
  const auto last =
      std::find_if(tensors.rbegin(), tensors.rend(), [](const MeanTensor& each) { return !each.statistic; });
  HALOGRAD_REQUIRE(last != tensors.rend() && !last->tensor.extents.empty(), path, ": holds no parameters");
  return static_cast<int>(last->tensor.extents.back());
}

void read_checkpoint_mean(const std::string& path, HostVector<float> parameters, HostVector<float> statistics) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  const CheckpointHeader header = read_header(file, path);
  require_lengths(read_layout(file, path), parameters.size(), statistics.size(), header.network, path);
  // values between tensors belong to none (alignment): they are zero in every replica
  std::fill_n(parameters.data(), parameters.size(), 0.0F);
  std::fill_n(statistics.data(), statistics.size(), 0.0F);
  for (const MeanTensor& mean : read_mean_tensors(file, path)) {
    const HostVector<float>& buffer = mean.statistic ? statistics : parameters;
    HALOGRAD_REQUIRE(mean.tensor.offset <= buffer.size() && mean.count <= buffer.size() - mean.tensor.offset, path,
                     ": /mean/", mean.tensor.layer, "/", mean.tensor.name, " does not fit the replica's length");
    read_mean_tensor(file, mean, buffer.data() + mean.tensor.offset, path);
  }
}

}  // namespace halograd
