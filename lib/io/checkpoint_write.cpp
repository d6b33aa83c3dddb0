#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
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

/// Values of a dataset that one rank writes in one go: a part of a row, a stretch of one, or a chunk.
struct Piece {
  std::int64_t dataset, row, part, begin;  ///< where they belong; datasets as CheckpointPlan counts them
  std::uint64_t bytes = 0;                 ///< of the values
  std::uint64_t stored = 0;                ///< of these in the file, where they may be compressed
  std::uint32_t checksum = 0;              ///< of the values
  std::uint32_t skipped = 0;               ///< bit i: filter i was not applied
};

/// The pieces of one rank, and what is to be stored of each.
struct OwnPieces {
  std::vector<Piece> pieces;
  std::vector<std::span<const std::byte>> stored;
  std::vector<RowChunk> chunks;  ///< memory of those that are compressed

  void add(Piece piece, std::span<const std::byte> values) {
    piece.bytes = piece.stored = values.size();
    piece.checksum = checksum(values);
    pieces.push_back(piece);
    stored.push_back(values);
  }
  void add_compressed(Piece piece, std::span<const std::byte> values, RowChunk chunk) {
    add(piece, values);
    pieces.back().stored = chunk.bytes.size();
    pieces.back().skipped = chunk.skipped;
    stored.back() = chunks.emplace_back(std::move(chunk)).bytes;
  }
};

/// A dataset of /mean.
struct MeanDataset {
  NamedTensor tensor;
  std::string kind;
  [[nodiscard]] std::string path() const { return "/mean/" + tensor.layer + "/" + tensor.name; }
  [[nodiscard]] std::size_t count() const {
    return std::accumulate(tensor.extents.begin(), tensor.extents.end(), std::size_t{1}, std::multiplies<>());
  }
};

/// The datasets of the file: those of /replica, and then those of /mean.
struct CheckpointPlan {
  CheckpointLayout layout;
  bool compress = false;  ///< /replica
  std::vector<ReplicaDataset> rows;
  std::vector<MeanDataset> means;
};

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

void require_place(const MeanDataset& mean, std::size_t length, const std::string& path) {
  const NamedTensor& tensor = mean.tensor;
  const bool named = !tensor.layer.empty() && !tensor.name.empty() && tensor.layer.find('/') == std::string::npos &&
                     tensor.name.find('/') == std::string::npos && tensor.layer != "." && tensor.name != ".";
  HALOGRAD_REQUIRE(named, path, ": ", mean.path(), ": the names of a layer and a tensor must not be empty or hold '/'");
  HALOGRAD_REQUIRE(tensor.offset <= length && mean.count() <= length - tensor.offset, path, ": ", mean.path(),
                   ": values ", tensor.offset, " to ", tensor.offset + mean.count(), " lie outside the replica's ",
                   length, " ", mean.kind, "s");
}

/// Throws Error where a tensor is not one of the replica's, or two rows of this rank differ.
CheckpointPlan make_plan(std::span<const ReplicaState> rows, int all_rows, const std::vector<NamedTensor>& parameters,
                         const std::vector<NamedTensor>& statistics, bool compress, const std::string& path) {
  HALOGRAD_REQUIRE(!rows.empty(), path, ": a rank has no row to write");
  CheckpointPlan plan{layout_of(rows.front(), all_rows), compress, {}, {}};
  for (const ReplicaState& row : rows) {
    HALOGRAD_REQUIRE(layout_of(row, all_rows) == plan.layout, path, ": the rows of a rank differ in length");
  }
  plan.rows = replica_datasets(plan.layout);
  for (const NamedTensor& tensor : parameters) {
    require_place(plan.means.emplace_back(MeanDataset{tensor, "parameter"}),
                  static_cast<std::size_t>(plan.layout.parameters), path);
  }
  for (const NamedTensor& tensor : statistics) {
    require_place(plan.means.emplace_back(MeanDataset{tensor, "statistic"}),
                  static_cast<std::size_t>(plan.layout.statistics), path);
  }
  return plan;
}

/// What a rank has of a row of /replica.
void add_row(OwnPieces& own, const CheckpointPlan& plan, const ReplicaState& state, std::int64_t row) {
  CheckpointLayout layout = plan.layout;
  layout.averager = state_layouts(state.averager);  // of those that share the row, this rank's
  const std::vector<ReplicaDataset> datasets = replica_datasets(layout);
  const std::vector<std::vector<Numbers>> buffers = replica_buffers(state);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::string& name = datasets[i].path;
    if (state.share && state.share->place > 0 && name == "/replica/statistics") continue;
    const auto dataset =
        std::find_if(plan.rows.begin(), plan.rows.end(), [&](const auto& each) { return each.path == name; });
    const auto chunk = static_cast<std::int64_t>(dataset->chunk().back());
    const std::int64_t begin = dataset->stretch > 0 ? state.share->begin : 0;
    Piece piece{dataset - plan.rows.begin(), row, 0, begin};
    for (const Numbers& part : buffers[i]) {
      const std::span<const std::byte> bytes = bytes_of(part);
      const std::size_t size = bytes_of_value(dataset->type),
                        length = plan.compress ? static_cast<std::size_t>(chunk) * size : bytes.size();
      HALOGRAD_REQUIRE(!plan.compress || bytes.empty() || begin % chunk == 0, name,
                       ": a stretch begins within a chunk");
      for (std::size_t at = 0; at < bytes.size(); at += length) {
        const auto values = bytes.subspan(at, std::min(length, bytes.size() - at));
        piece.begin = begin + static_cast<std::int64_t>(at / size);
        if (plan.compress) {
          own.add_compressed(piece, values, compress_chunk(values, size, static_cast<std::size_t>(chunk)));
        } else {
          own.add(piece, values);
        }
      }
      ++piece.part;
    }
  }
}

/// The parts of the tensors of this kind that a rank has the mean of. `begin`: of its stretch.
void add_means(OwnPieces& own, const CheckpointPlan& plan, const std::string& kind, std::span<const float> mean,
               std::size_t begin) {
  for (std::size_t i = 0; i < plan.means.size(); ++i) {
    const MeanDataset& each = plan.means[i];
    const std::size_t offset = each.tensor.offset, from = std::max(offset, begin),
                      to = std::min(offset + each.count(), begin + mean.size());
    if (each.kind != kind || from >= to) continue;
    const auto dataset = static_cast<std::int64_t>(plan.rows.size() + i);
    own.add({dataset, 0, 0, static_cast<std::int64_t>(from - offset)},
            std::as_bytes(mean.subspan(from - begin, to - from)));
  }
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

/// `chunk`: empty where the values are not compressed.
Hdf5Dataset make_dataset(hid_t parent, const std::string& name, const std::vector<hsize_t>& extents,
                         const std::string& file, NumberType type = NumberType::float32,
                         const std::vector<hsize_t>& chunk = {}) {
  DatasetStorage storage;
  storage.chunk = chunk;
  storage.deflate = !chunk.empty();
  storage.reserve = chunk.empty();  // so that what ranks write later is raw data only
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

/// At least the bytes that the file will have: the values, a gap before each large dataset, and its metadata,
/// generously.
std::size_t file_bytes(const CheckpointPlan& plan, const CheckpointHeader& header, std::size_t pieces) {
  const CheckpointLayout& layout = plan.layout;
  const std::int64_t row = layout.parameters * (1 + layout.optimizer_buffers) + layout.statistics;
  const std::int64_t mean = layout.parameters + layout.statistics;
  const auto values = static_cast<std::size_t>(layout.ranks * row + mean) * sizeof(float);
  std::size_t states = 0;
  for (const StateLayout& each : layout.averager) {
    states += static_cast<std::size_t>(layout.ranks * each.length) * sizeof(double) + mebibyte;
  }
  constexpr std::size_t index_bytes = 128;  // of a chunk
  const std::size_t tensors = plan.means.size(), chunks = plan.compress ? pieces * index_bytes : 0;
  const std::size_t gaps = std::min(tensors + 3, values / mebibyte + 1) * mebibyte;
  const auto a_rank = static_cast<std::size_t>(layout.ranks) * (4 * sizeof(std::uint32_t) + sizeof(EpochSums));
  return values + states + gaps + tensors * 4096 + a_rank + chunks + header.config.size() + header.versions.size() +
         mebibyte;
}

/// The pieces of all ranks, one rank after the other, and where each is in the file.
struct Placed {
  std::vector<Piece> pieces;
  std::vector<std::int64_t> places;
  std::vector<std::size_t> order;  ///< of their values: by dataset, row, part and begin
  std::size_t next = 0;            ///< in this order: the first without a place

  explicit Placed(std::vector<Piece> all) : pieces(std::move(all)), places(pieces.size()), order(pieces.size()) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [this](std::size_t i) {
      return std::tuple(pieces[i].dataset, pieces[i].row, pieces[i].part, pieces[i].begin);
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  }
};

/// Finds the pieces of a dataset their places, one dataset after the other, and writes the checksums of its rows.
void place_pieces(Placed& placed, std::int64_t number, const Hdf5Dataset& dataset, const ReplicaDataset& shape,
                  bool compress, const std::string& path) {
  const auto size = static_cast<std::int64_t>(bytes_of_value(shape.type));
  const haddr_t start = compress ? 0 : H5Dget_offset(dataset);
  std::vector<std::uint32_t> checksums(static_cast<std::size_t>(shape.ranks));
  std::uint64_t bytes = 0;
  for (; placed.next < placed.order.size(); ++placed.next) {
    const std::size_t i = placed.order[placed.next];
    const Piece& piece = placed.pieces[i];
    if (piece.dataset != number) break;
    auto& row = checksums[static_cast<std::size_t>(piece.row)];
    row = static_cast<std::uint32_t>(crc32_combine(row, piece.checksum, static_cast<z_off_t>(piece.bytes)));
    bytes += piece.bytes;
    if (compress) {
      std::vector<hsize_t> at{static_cast<hsize_t>(piece.row)};
      if (shape.by_part) at.push_back(static_cast<hsize_t>(piece.part));
      at.push_back(static_cast<hsize_t>(piece.begin));
      placed.places[i] = place_chunk(dataset, shape.path, at, piece.stored, piece.skipped, path);
    } else {
      const std::int64_t value = (piece.row * shape.parts + piece.part) * shape.length + piece.begin;
      placed.places[i] = static_cast<std::int64_t>(start) + value * size;
    }
  }
  const std::int64_t expected = shape.ranks * shape.parts * shape.length * size;
  HALOGRAD_REQUIRE(static_cast<std::int64_t>(bytes) == expected, path, ": ", shape.path, ": the ranks have ", bytes,
                   " bytes to write, expected ", expected);
  write_attribute(dataset, "crc32", checksums, path);
}

/// For one process: the file with all its metadata and the room for what the ranks write. Returns where each piece's
/// is.
std::vector<std::int64_t> make_file(const std::string& path, const CheckpointHeader& header, const CheckpointPlan& plan,
                                    Placed placed, const std::vector<EpochSums>& sums) {
  ::unlink(path.c_str());  // a process of a killed job may still have that one open
  const Hdf5Session session;
  Hdf5File file = create_hdf5(path, file_bytes(plan, header, placed.pieces.size()));
  write_header(file, header, plan.layout.ranks, path);
  std::int64_t number = 0;
  {
    const Hdf5Group replica = create_group(file, "replica", path, true);
    if (!plan.layout.averager.empty()) create_group(file, averager_group, path, true);
    for (const ReplicaDataset& each : plan.rows) {
      const auto chunk = plan.compress ? each.chunk() : std::vector<hsize_t>();
      const Hdf5Dataset dataset = make_dataset(file, each.path, each.extents(), path, each.type, chunk);
      place_pieces(placed, number++, dataset, each, plan.compress, path);
    }
    if (header.step_in_epoch > 0) write_epoch_sums(file, sums, path);
    const Hdf5Group mean = create_group(file, "mean", path, true);
    for (const MeanDataset& each : plan.means) {
      const NamedTensor& tensor = each.tensor;
      const Hdf5Group layer = has_link(mean, tensor.layer, path) ? open_group(mean, tensor.layer, path)
                                                                 : create_group(mean, tensor.layer, path, true);
      const std::vector<hsize_t> extents(tensor.extents.begin(), tensor.extents.end());
      const Hdf5Dataset dataset = make_dataset(layer, tensor.name, extents, path);
      write_attribute(dataset, "kind", each.kind, path);
      write_attribute(dataset, "offset", static_cast<std::int64_t>(tensor.offset), path);
      place_pieces(placed, number++, dataset, {each.path(), 1, 1, static_cast<std::int64_t>(each.count())}, false,
                   path);
    }
  }
  HALOGRAD_HDF5(file.close(), path, "file");
  return placed.places;
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
  const std::vector<std::size_t> rows_of_rank = comm.gather(rows.size());
  const auto first_row = std::accumulate(rows_of_rank.begin(), rows_of_rank.begin() + comm.rank(), std::size_t{0});
  const auto all_rows = std::accumulate(rows_of_rank.begin(), rows_of_rank.end(), std::size_t{0});
  CheckpointPlan plan;
  RowShare share;
  comm.together([&] {
    if (!rows.empty() && rows.front().share) share = *rows.front().share;
    HALOGRAD_REQUIRE(comm.rank() % share.ranks == share.place && comm.ranks() % share.ranks == 0, path, ": ",
                     share.ranks, " ranks that share a row are not consecutive ones");
    plan = make_plan(rows, static_cast<int>(all_rows) / share.ranks, parameters, statistics, compress, path);
  });
  require_same_lengths(comm, plan.layout);

  OwnPieces own;
  comm.together([&] {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      add_row(own, plan, rows[i], static_cast<std::int64_t>(first_row + i) / share.ranks);
    }
  });
  std::vector<float> parameters_memory, statistics_memory;
  const auto add_all_means = [&](const Communicator& same_place) {
    const auto mean_parameters = mean_on_root(same_place, rows, &ReplicaState::parameters, parameters_memory);
    const auto mean_statistics = mean_on_root(same_place, rows, &ReplicaState::statistics, statistics_memory);
    comm.together([&] {
      if (same_place.rank() != 0) return;
      add_means(own, plan, "parameter", mean_parameters, static_cast<std::size_t>(share.begin));
      if (share.place == 0) add_means(own, plan, "statistic", mean_statistics, 0);
    });
  };
  share.ranks == 1 ? add_all_means(comm) : add_all_means(comm.split(share.place));
  std::vector<EpochSums> sums;
  for (const ReplicaState& row : rows) {
    if (share.place == 0) sums.push_back(row.sums);
  }
  sums = comm.join_on_root(sums);

  // Rank 0 makes the file; then all ranks write their pieces at once. So what can go wrong goes wrong on one rank, and
  // no other waits for it in a collective call.
  const std::string partial = path + ".partial";
  const std::vector<std::size_t> pieces_of_rank = comm.gather(own.pieces.size());
  const auto at_own = pieces_of_rank.begin() + comm.rank();
  const auto first = std::accumulate(pieces_of_rank.begin(), at_own, std::size_t{0});
  std::vector<std::int64_t> places(std::accumulate(at_own, pieces_of_rank.end(), first));  // rank 0's, then 1's
  std::vector<Piece> pieces = comm.join_on_root(own.pieces);
  try {
    comm.together([&] {
      if (root) places = make_file(partial, header, plan, Placed(std::move(pieces)), sums);
    });
    comm.broadcast(std::span(places));
    write_pieces(comm, partial, own.stored, std::span(places).subspan(first, own.pieces.size()));
    comm.together([&] {
      if (root) publish_file(partial, path);
    });
  } catch (const Error&) {
    if (root) ::unlink(partial.c_str());
    throw;
  }
}

}  // namespace halograd
