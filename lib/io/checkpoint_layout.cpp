#include "io/checkpoint_layout.hpp"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"

static_assert(std::endian::native == std::endian::little, "checksums are of the values as they lie in memory");

namespace halograd {
namespace {

/// Values [begin, begin + count) of a row's part.
Hdf5Box box_of(const ReplicaDataset& shape, std::int64_t row, std::int64_t part, std::size_t begin, std::size_t count) {
  if (!shape.by_part) return {{static_cast<hsize_t>(row), begin}, {1, count}};
  return {{static_cast<hsize_t>(row), static_cast<hsize_t>(part), begin}, {1, 1, count}};
}

constexpr const char* epoch_sums = "/replica/epoch_sums";
constexpr hsize_t epoch_sum_count = 4;
static_assert(sizeof(EpochSums) == epoch_sum_count * sizeof(double), "a row is written as it lies in memory");

std::uint32_t checksum_of(const EpochSums& row) {
  return checksum(std::as_bytes(std::span(&row, 1)));
}

hid_t native_type(NumberType type) {
  if (type == NumberType::float32) return H5T_NATIVE_FLOAT;
  return type == NumberType::float64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64;
}

NumberType read_number_type(const Hdf5Dataset& dataset, const std::string& object, const std::string& file) {
  const Hdf5Type type = dataset_type(dataset, object, file);
  for (const NumberType known : {NumberType::float32, NumberType::float64, NumberType::int64}) {
    if (H5Tequal(type, file_type(known)) > 0) return known;
  }
  fail(file, ": ", object, " holds values of an unknown type");
}

template <class Transfer>
void in_pieces(std::size_t length, std::size_t piece, Transfer&& transfer) {
  for (std::size_t begin = 0; begin < length; begin += piece) transfer(begin, std::min(piece, length - begin));
}

}  // namespace

std::vector<hsize_t> ReplicaDataset::extents() const {
  const auto rows = static_cast<hsize_t>(ranks);
  if (by_part) return {rows, static_cast<hsize_t>(parts), static_cast<hsize_t>(length)};
  return {rows, static_cast<hsize_t>(length)};
}

std::vector<hsize_t> ReplicaDataset::chunk() const {
  const std::int64_t whole = stretch > 0 ? stretch : length;
  const std::int64_t chunks = std::max<std::int64_t>(1, (whole + checkpoint_chunk - 1) / checkpoint_chunk);
  std::vector<hsize_t> extents(by_part ? 3 : 2, 1);
  extents.back() = static_cast<hsize_t>((whole + chunks - 1) / chunks);
  return extents;
}

std::vector<ReplicaDataset> replica_datasets(const CheckpointLayout& layout) {
  std::vector<ReplicaDataset> datasets{
      {"/replica/parameters", layout.ranks, 1, layout.parameters, false, NumberType::float32, layout.stretch}};
  if (layout.optimizer_buffers > 0) {
    datasets.push_back({"/replica/optimizer", layout.ranks, layout.optimizer_buffers, layout.parameters, true,
                        NumberType::float32, layout.stretch});
  }
  if (layout.statistics > 0) datasets.push_back({"/replica/statistics", layout.ranks, 1, layout.statistics, false});
  for (ReplicaDataset& each : state_datasets(layout.ranks, layout.averager)) datasets.push_back(std::move(each));
  return datasets;
}

std::vector<ReplicaDataset> state_datasets(std::int64_t ranks, const std::vector<StateLayout>& states) {
  std::vector<ReplicaDataset> datasets;
  for (const StateLayout& state : states) {
    const std::string path = std::string(averager_group) + "/" + state.name;
    datasets.push_back({path, ranks, 1, state.length, false, state.type});
  }
  return datasets;
}

std::vector<StateLayout> state_layouts(const std::vector<SavedState>& states) {
  std::vector<StateLayout> layouts;
  layouts.reserve(states.size());
  for (const SavedState& each : states) {
    layouts.push_back({each.name, type_of(each.values), static_cast<std::int64_t>(count_of(each.values))});
  }
  return layouts;
}

std::vector<std::vector<Numbers>> replica_buffers(const ReplicaState& state) {
  std::vector<std::vector<Numbers>> buffers{{numbers(state.parameters)}};
  if (!state.optimizer.empty()) {
    std::vector<Numbers>& parts = buffers.emplace_back();
    for (const HostVector<float>& part : state.optimizer) parts.push_back(numbers(part));
  }
  if (state.statistics.size() > 0) buffers.push_back({numbers(state.statistics)});
  for (const SavedState& each : state.averager) buffers.push_back({each.values});
  return buffers;
}

CheckpointLayout layout_of(const ReplicaState& state, int ranks) {
  for (const HostVector<float>& buffer : state.optimizer) {
    HALOGRAD_REQUIRE(buffer.size() == state.parameters.size(), "an optimizer buffer has ", buffer.size(),
                     " values, the parameters ", state.parameters.size());
  }
  CheckpointLayout layout{ranks, static_cast<std::int64_t>(state.parameters.size()),
                          static_cast<std::int64_t>(state.optimizer.size()),
                          static_cast<std::int64_t>(state.statistics.size()), state_layouts(state.averager)};
  if (state.share) {
    layout.parameters = state.share->parameters;
    layout.stretch = state.share->longest;
    layout.averager = state.share->averager;
  }
  HALOGRAD_REQUIRE(layout.parameters > 0, "a replica without parameters has no checkpoint");
  return layout;
}

CheckpointHeader read_header(const Hdf5File& file, const std::string& path) {
  require_format(file, checkpoint_format, checkpoint_format_version, path);
  CheckpointHeader header;
  header.step = read_integer_attribute(file, "step", path);
  header.epoch = read_integer_attribute(file, "epoch", path);
  header.step_in_epoch = read_integer_attribute(file, "step_in_epoch", path);
  header.ranks = static_cast<int>(read_integer_attribute(file, "ranks", path));
  header.network = read_string_attribute(file, "network", path);
  header.averager = read_string_attribute(file, "averager", path);
  header.topology = read_string_attribute(file, "topology", path);
  header.config = read_string_attribute(file, "config", path);
  header.versions = read_string_attribute(file, "versions", path);
  const bool counted = has_attribute(file, "optimizer_steps", path);  // a file of before: as if it never started anew
  header.optimizer_steps = counted ? read_integer_attribute(file, "optimizer_steps", path) : header.step;
  if (has_attribute(file, "input", path)) header.input = read_string_attribute(file, "input", path);
  if (has_attribute(file, "mean_model_loss", path)) {
    if (has_attribute(file, "metric", path)) header.metric = read_string_attribute(file, "metric", path);
    header.mean_model_score = read_number_attribute(file, "mean_model_" + header.metric, path);
    header.mean_model_loss = read_number_attribute(file, "mean_model_loss", path);
  }
  return header;
}

CheckpointLayout read_layout(const Hdf5File& file, const std::string& path) {
  const auto extents_of = [&](const char* name, std::size_t dimensions) {
    const Hdf5Dataset dataset = open_hdf5_dataset(file, name, path);
    require_held(dataset, sizeof(float), name, path);
    auto extents = dataset_extents(dataset, name, path);
    HALOGRAD_REQUIRE(extents.size() == dimensions, path, ": ", name, " has ", extents.size(), " dimensions, expected ",
                     dimensions);
    return extents;
  };
  const auto parameters = extents_of("/replica/parameters", 2);
  CheckpointLayout layout{static_cast<std::int64_t>(parameters[0]), static_cast<std::int64_t>(parameters[1]), 0, 0};
  (void)read_row_checksums(open_hdf5_dataset(file, "/replica/parameters", path), "/replica/parameters", layout.ranks,
                           path);
  if (has_link(file, "/replica/optimizer", path)) {
    const auto optimizer = extents_of("/replica/optimizer", 3);
    HALOGRAD_REQUIRE(optimizer[0] == parameters[0] && optimizer[2] == parameters[1], path,
                     ": /replica/optimizer does not fit /replica/parameters");
    layout.optimizer_buffers = static_cast<std::int64_t>(optimizer[1]);
  }
  if (has_link(file, "/replica/statistics", path)) {
    const auto statistics = extents_of("/replica/statistics", 2);
    HALOGRAD_REQUIRE(statistics[0] == parameters[0], path, ": /replica/statistics does not fit /replica/parameters");
    layout.statistics = static_cast<std::int64_t>(statistics[1]);
  }
  if (!has_link(file, averager_group, path)) return layout;
  for (const std::string& name : link_names(open_group(file, averager_group, path), path)) {
    const std::string object = std::string(averager_group) + "/" + name;
    const auto extents = extents_of(object.c_str(), 2);
    HALOGRAD_REQUIRE(extents[0] == parameters[0], path, ": ", object, " does not fit /replica/parameters");
    const NumberType type = read_number_type(open_hdf5_dataset(file, object, path), object, path);
    layout.averager.push_back({name, type, static_cast<std::int64_t>(extents[1])});
  }
  return layout;
}

Numbers numbers(HostVector<float> values) {
  return std::span<float>(values.data(), values.size());
}

hid_t file_type(NumberType type) {
  if (type == NumberType::float32) return H5T_IEEE_F32LE;
  return type == NumberType::float64 ? H5T_IEEE_F64LE : H5T_STD_I64LE;
}

std::uint32_t checksum(std::span<const std::byte> values, std::uint32_t start) {
  return static_cast<std::uint32_t>(crc32_z(start, reinterpret_cast<const Bytef*>(values.data()), values.size()));
}

std::uint32_t checksum(const float* values, std::size_t count) {
  return checksum(std::as_bytes(std::span(values, count)));
}

void write_epoch_sums(const Hdf5File& file, const std::vector<EpochSums>& rows, const std::string& path) {
  const Hdf5Dataset dataset = create_dataset(file, epoch_sums, H5T_IEEE_F64LE, {rows.size(), epoch_sum_count}, path);
  write_dataset(dataset, H5T_NATIVE_DOUBLE, rows.data(), epoch_sums, path);
  std::vector<std::uint32_t> checksums;
  checksums.reserve(rows.size());
  for (const EpochSums& row : rows) checksums.push_back(checksum_of(row));
  write_attribute(dataset, "crc32", checksums, path);
}

std::vector<EpochSums> read_epoch_sums(const Hdf5File& file, std::int64_t ranks, const std::string& path) {
  std::vector<EpochSums> rows(static_cast<std::size_t>(ranks));
  if (!has_link(file, epoch_sums, path)) return rows;
  const Hdf5Dataset dataset = open_hdf5_dataset(file, epoch_sums, path);
  const std::vector<hsize_t> expected{rows.size(), epoch_sum_count};
  HALOGRAD_REQUIRE(dataset_extents(dataset, epoch_sums, path) == expected, path, ": ", epoch_sums,
                   " does not have the extents (", ranks, ", ", epoch_sum_count, ")");
  read_dataset(dataset, H5T_NATIVE_DOUBLE, rows.data(), epoch_sums, path);
  const auto checksums = read_checksums_attribute(dataset, "crc32", path);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    HALOGRAD_REQUIRE(rank < checksums.size() && checksum_of(rows[rank]) == checksums[rank], path, ": ", epoch_sums,
                     ", row ", rank, ": the checksum is wrong; the file is damaged");
  }
  return rows;
}

void read_part(const Hdf5Dataset& dataset, const ReplicaDataset& shape, std::int64_t row, std::int64_t part,
               const Numbers& values, const std::string& file, std::size_t piece) {
  const std::span<std::byte> bytes = bytes_of(values);
  const std::size_t size = bytes.size() / std::max<std::size_t>(1, count_of(values));
  in_pieces(count_of(values), piece, [&](std::size_t begin, std::size_t count) {
    read_box(dataset, native_type(shape.type), box_of(shape, row, part, begin, count), bytes.data() + begin * size,
             shape.path, file);
  });
}

std::vector<std::uint32_t> read_row_checksums(const Hdf5Dataset& dataset, const std::string& object, std::int64_t rows,
                                              const std::string& file) {
  std::vector<std::uint32_t> checksums = read_checksums_attribute(dataset, "crc32", file);
  HALOGRAD_REQUIRE(static_cast<std::int64_t>(checksums.size()) == rows, file, ": ", object, " has ", checksums.size(),
                   " checksums, expected ", rows);
  return checksums;
}

std::vector<std::string> read_every_row(const Hdf5File& file, const CheckpointLayout& layout, std::int64_t first,
                                        std::int64_t stride, const UseRow& use, const std::string& path) {
  std::vector<std::string> damaged;
  const std::vector<ReplicaDataset> datasets = replica_datasets(layout);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const ReplicaDataset& shape = datasets[i];
    const Hdf5Dataset dataset = open_hdf5_dataset(file, shape.path, path);
    const auto expected = read_row_checksums(dataset, shape.path, shape.ranks, path);
    const auto length = static_cast<std::size_t>(shape.length);
    std::vector<std::byte> room(length * bytes_of_value(shape.type));
    Numbers values = std::span(reinterpret_cast<float*>(room.data()), length);
    if (shape.type == NumberType::float64) values = std::span(reinterpret_cast<double*>(room.data()), length);
    if (shape.type == NumberType::int64) values = std::span(reinterpret_cast<std::int64_t*>(room.data()), length);
    for (std::int64_t row = first; row < shape.ranks; row += stride) {
      std::uint32_t crc = 0;
      for (std::int64_t part = 0; part < shape.parts; ++part) {
        read_part(dataset, shape, row, part, values, path);
        crc = checksum(bytes_of(values), crc);
        use(i, row, part, values);
      }
      if (crc != expected[static_cast<std::size_t>(row)]) {
        damaged.push_back(shape.path + ", row " + std::to_string(row));
      }
    }
  }
  return damaged;
}

std::vector<MeanTensor> read_mean_tensors(const Hdf5File& file, const std::string& path) {
  std::vector<MeanTensor> tensors;
  const Hdf5Group mean = open_group(file, "/mean", path);
  for (const std::string& layer : link_names(mean, path)) {
    const Hdf5Group group = open_group(mean, layer, path);
    for (const std::string& name : link_names(group, path)) {
      const std::string object = "/mean/" + layer + "/" + name;
      const Hdf5Dataset dataset = open_hdf5_dataset(group, name, path);
      require_held(dataset, sizeof(float), object, path);
      const auto extents = dataset_extents(dataset, object, path);
      MeanTensor tensor{{layer, name, {extents.begin(), extents.end()}, 0}, false, 0, 0};
      tensor.count = std::accumulate(extents.begin(), extents.end(), std::size_t{1}, std::multiplies<>());
      tensor.tensor.offset = static_cast<std::size_t>(read_integer_attribute(dataset, "offset", path));
      tensor.statistic = read_string_attribute(dataset, "kind", path) == "statistic";
      const auto crc = read_checksums_attribute(dataset, "crc32", path);
      HALOGRAD_REQUIRE(crc.size() == 1, path, ": ", object, " has ", crc.size(), " checksums, expected 1");
      tensor.crc = crc[0];
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

void read_mean_tensor(const Hdf5File& file, const MeanTensor& mean, float* values, const std::string& path) {
  const std::string object = "/mean/" + mean.tensor.layer + "/" + mean.tensor.name;
  const Hdf5Dataset dataset = open_hdf5_dataset(file, object, path);
  read_dataset(dataset, H5T_NATIVE_FLOAT, values, object, path);
  HALOGRAD_REQUIRE(checksum(values, mean.count) == mean.crc, path, ": ", object,
                   ": the checksum is wrong; the file is damaged");
}

}  // namespace halograd
