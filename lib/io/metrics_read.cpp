#include "io/metrics_read.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

#include "hdf5/rows.hpp"
#include "io/metrics_columns.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

/// Reads the columns of one group, cut to the shortest: a reader may come between two columns of a writer's flush.
template <class Columns>
std::int64_t read_columns(const Hdf5File& file, const Columns& columns, MetricsTable& table, std::int64_t end,
                          std::int64_t most, const std::string& path) {
  auto rows = static_cast<hsize_t>(end);
  hsize_t row_values = 0;
  const auto is_absent = [&](const auto& column, const std::string& name) {
    return column.optional && !has_link(file, name, path);
  };
  for (const auto& column : columns) {
    const std::string name = for_metric(column.path, table.metric);
    row_values += static_cast<hsize_t>(column.per_rank ? table.ranks : 1);
    if (is_absent(column, name)) continue;
    const Hdf5Dataset dataset = open_hdf5_dataset(file, name, path);
    require_held(dataset, sizeof(double), name, path);
    const auto extents = dataset_extents(dataset, name, path);
    const bool fits = extents.size() == (column.per_rank ? 2U : 1U) &&
                      (!column.per_rank || extents[1] == static_cast<hsize_t>(table.ranks));
    HALOGRAD_REQUIRE(fits, path, ": ", name, " does not have the extents (rows", column.per_rank ? ", " : "",
                     column.per_rank ? std::to_string(table.ranks) : "", ")");
    rows = std::min(rows, extents[0]);
  }
  const hsize_t read = std::min(rows, static_cast<hsize_t>(most));
  require_held_together(file, read * row_values * sizeof(double), "its columns", path);
  for (const auto& column : columns) {
    const std::string name = for_metric(column.path, table.metric);
    if (is_absent(column, name)) {
      const auto width = static_cast<hsize_t>(column.per_rank ? table.ranks : 1);
      table.columns[name].assign(read * width, column.integer ? -1 : std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    std::vector<double>& values = table.columns[name];
    values = read_rows(open_hdf5_dataset(file, name, path), name, rows - read, read,
                       column.per_rank ? static_cast<std::size_t>(table.ranks) : 0, path);
    constexpr double largest = 9007199254740992;  // 2^53, up to which a double holds every integer
    const auto bad =
        std::find_if(values.begin(), values.end(), [](double value) { return !(std::abs(value) <= largest); });
    HALOGRAD_REQUIRE(!column.integer || bad == values.end(), path, ": ", name, " holds ", *bad,
                     ", expected integers of at most 2^53");
  }
  return static_cast<std::int64_t>(rows);
}

}  // namespace

MetricsTable read_metrics(const std::string& path, std::int64_t most_steps, const MetricsRows& end) {
  const Hdf5Session session;
  // as a reader beside a writer: this is what opens a file whose writer died without closing it
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
  require_format(file, metrics_format, metrics_format_version, path);
  MetricsTable table;
  table.ranks = static_cast<int>(read_integer_attribute(file, "ranks", path));
  HALOGRAD_REQUIRE(table.ranks >= 1, path, ": attribute 'ranks' is ", table.ranks, ", expected at least 1");
  table.metric = has_attribute(file, "metric", path) ? read_string_attribute(file, "metric", path) : "accuracy";
  table.epochs = read_columns(file, epoch_columns, table, end.epochs, end.epochs, path);
  table.steps = read_columns(file, step_columns, table, end.steps, most_steps, path);
  table.first_step = std::max<std::int64_t>(0, table.steps - most_steps);
  for (const double rank : table.columns.at("/step/rank")) {
    HALOGRAD_REQUIRE(rank >= -1 && rank < table.ranks, path, ": /step/rank holds ", rank, ", expected a rank below ",
                     table.ranks, ", or -1 where it is not known");
  }
  return table;
}

bool has_writer(const std::string& path) {
  // Superblock of versions 2 and 3 (HDF5 File Format Specification, III.): a signature of 8 bytes, the version, two
  // sizes, then the file consistency flags, of which bits 0 and 2 are set while a writer has the file.
  constexpr int flags = 11, writing = 0x01 | 0x04;
  std::array<char, flags + 1> start{};
  std::ifstream file(path, std::ios::binary);
  HALOGRAD_REQUIRE(file, path, ": cannot be opened: ", system_reason());
  HALOGRAD_REQUIRE(file.read(start.data(), start.size()), path, ": cannot be read");
  return (start[flags] & writing) != 0;
}

}  // namespace halograd
