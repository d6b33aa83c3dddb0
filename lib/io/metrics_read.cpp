#include "io/metrics_read.hpp"

#include <algorithm>
#include <limits>

#include "io/hdf5.hpp"
#include "io/metrics_columns.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

/// Reads the columns of one group, cut to the shortest: a reader may come between two columns of a writer's flush.
template <class Columns>
std::int64_t read_columns(const Hdf5File& file, const Columns& columns, MetricsTable& table, const std::string& path) {
  auto rows = std::numeric_limits<hsize_t>::max();
  for (const auto& column : columns) {
    const std::string name = for_metric(column.path, table.metric);
    const auto extents = dataset_extents(open_dataset(file, name, path), name, path);
    const bool fits = extents.size() == (column.per_rank ? 2U : 1U) &&
                      (!column.per_rank || extents[1] == static_cast<hsize_t>(table.ranks));
    HALOGRAD_REQUIRE(fits, path, ": ", name, " does not have the extents (rows", column.per_rank ? ", " : "",
                     column.per_rank ? std::to_string(table.ranks) : "", ")");
    rows = std::min(rows, extents[0]);
  }
  for (const auto& column : columns) {
    const std::string name = for_metric(column.path, table.metric);
    const Hdf5Dataset dataset = open_dataset(file, name, path);
    const std::vector<hsize_t> start(column.per_rank ? 2 : 1, 0);
    std::vector<hsize_t> count{rows};
    if (column.per_rank) count.push_back(static_cast<hsize_t>(table.ranks));
    std::vector<double>& values = table.columns[name];
    values.resize(rows * (column.per_rank ? static_cast<std::size_t>(table.ranks) : 1));
    if (rows == 0) continue;
    const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), path, name));
    HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path, name);
    HALOGRAD_HDF5(H5Dread(dataset, H5T_NATIVE_DOUBLE, make_space(count), space, H5P_DEFAULT, values.data()), path,
                  name);
  }
  return static_cast<std::int64_t>(rows);
}

}  // namespace

MetricsTable read_metrics(const std::string& path) {
  const auto lock = hdf5_session();
  // as a reader beside a writer: this is what opens a file whose writer died without closing it
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
  require_format(file, metrics_format, metrics_format_version, path);
  MetricsTable table;
  table.ranks = static_cast<int>(read_integer_attribute(file, "ranks", path));
  table.metric = has_attribute(file, "metric", path) ? read_string_attribute(file, "metric", path) : "accuracy";
  table.epochs = read_columns(file, epoch_columns, table, path);
  table.steps = read_columns(file, step_columns, table, path);
  return table;
}

}  // namespace halograd
