#include "io/edge_metrics.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/error.hpp"
#include "support/wait.hpp"

namespace halograd {
namespace {

constexpr hsize_t chunk_bytes = 65536;

std::vector<hsize_t> extents_of(const EdgeColumn& column, hsize_t rows) {
  if (column.width == 1) return {rows};
  return {rows, static_cast<hsize_t>(column.width)};
}

EdgeRow row_of(const EdgeRecord& record, std::int64_t epoch, int to) {
  const bool some = record.halos > 0;
  const double none = std::numeric_limits<double>::quiet_NaN();
  EdgeRow row{static_cast<double>(epoch),
              static_cast<double>(record.from),
              static_cast<double>(to),
              static_cast<double>(record.halos),
              static_cast<double>(record.skipped),
              static_cast<double>(record.left_out),
              static_cast<double>(record.bytes),
              some ? record.delay / static_cast<double>(record.halos) : none,
              some ? record.least_delay : none,
              record.wait};
  std::copy(record.staleness.begin(), record.staleness.end(), row.end() - staleness_bins);
  return row;
}

}  // namespace

std::vector<EdgeRow> gather_edges(MPI_Comm comm, const std::vector<EdgeRecord>& records, std::int64_t epoch) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  std::vector<EdgeRow> mine;
  mine.reserve(records.size());
  for (const EdgeRecord& record : records) mine.push_back(row_of(record, epoch, rank));
  const int count = static_cast<int>(mine.size());
  std::vector<int> counts(static_cast<std::size_t>(ranks)), starts(static_cast<std::size_t>(ranks));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Igather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm, &request);
  wait_politely(request);
  MPI_Datatype row = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(edge_values, MPI_DOUBLE, &row);
  MPI_Type_commit(&row);
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
  std::vector<EdgeRow> all(rank == 0 ? static_cast<std::size_t>(starts.back() + counts.back()) : 0);
  MPI_Igatherv(mine.data(), count, row, all.data(), counts.data(), starts.data(), row, 0, comm, &request);
  wait_politely(request);
  MPI_Type_free(&row);
  return all;
}

void make_edge_columns(const Hdf5File& file, const std::string& path) {
  const Hdf5Group group(HALOGRAD_HDF5(H5Gcreate2(file, "edge", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path, "edge"));
  for (const EdgeColumn& column : edge_columns) {
    const auto start = extents_of(column, 0), most = extents_of(column, H5S_UNLIMITED);
    const auto chunk = extents_of(column, chunk_bytes / 8 / column.width);
    const int dimensions = static_cast<int>(start.size());
    const Hdf5Space space(HALOGRAD_HDF5(H5Screate_simple(dimensions, start.data(), most.data()), path, column.path));
    const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(H5P_DATASET_CREATE), path, column.path));
    HALOGRAD_HDF5(H5Pset_chunk(creation, dimensions, chunk.data()), path, column.path);
    const Hdf5Dataset dataset(
        HALOGRAD_HDF5(H5Dcreate2(file, column.path, column.integer ? H5T_STD_I64LE : H5T_IEEE_F64LE, space, H5P_DEFAULT,
                                 creation, H5P_DEFAULT),
                      path, column.path));
    write_attribute(dataset, "unit", std::string(column.unit), path);
    write_attribute(dataset, "description", std::string(column.description), path);
  }
}

std::vector<Hdf5Dataset> open_edge_columns(const Hdf5File& file, const std::string& path) {
  std::vector<Hdf5Dataset> datasets;
  datasets.reserve(edge_columns.size());
  for (const EdgeColumn& column : edge_columns) datasets.push_back(open_dataset(file, column.path, path));
  return datasets;
}

void append_edges(const std::vector<Hdf5Dataset>& datasets, const std::vector<EdgeRow>& rows, const std::string& path) {
  if (rows.empty()) return;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < edge_columns.size(); ++i) {
    const EdgeColumn& column = edge_columns[i];
    std::vector<double> values;
    values.reserve(rows.size() * column.width);
    for (const EdgeRow& row : rows) {
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(offset);
      values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(column.width));
    }
    offset += column.width;
    const hsize_t present = dataset_extents(datasets[i], column.path, path)[0];
    HALOGRAD_HDF5(H5Dset_extent(datasets[i], extents_of(column, present + rows.size()).data()), path, column.path);
    const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(datasets[i]), path, column.path));
    const auto count = extents_of(column, rows.size());
    std::vector<hsize_t> start(count.size(), 0);
    start[0] = present;
    HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path,
                  column.path);
    HALOGRAD_HDF5(H5Dwrite(datasets[i], H5T_NATIVE_DOUBLE, make_space(count), space, H5P_DEFAULT, values.data()), path,
                  column.path);
    HALOGRAD_HDF5(H5Dflush(datasets[i]), path, column.path);
  }
}

std::vector<EdgeRow> read_edges(const Hdf5File& file, std::int64_t epochs, const std::string& path) {
  if (!has_link(file, "edge", path)) return {};
  const std::vector<Hdf5Dataset> datasets = open_edge_columns(file, path);
  auto count = std::numeric_limits<hsize_t>::max();  // a crash may have left one column longer than another
  for (std::size_t i = 0; i < edge_columns.size(); ++i) {
    count = std::min(count, dataset_extents(datasets[i], edge_columns[i].path, path)[0]);
  }
  std::vector<EdgeRow> rows(count);
  std::size_t offset = 0;
  for (std::size_t i = 0; i < edge_columns.size() && count > 0; ++i) {
    const EdgeColumn& column = edge_columns[i];
    std::vector<double> values(count * column.width);
    const auto extents = extents_of(column, count);
    const std::vector<hsize_t> start(extents.size(), 0);
    const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(datasets[i]), path, column.path));
    HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, extents.data(), nullptr), path,
                  column.path);
    HALOGRAD_HDF5(H5Dread(datasets[i], H5T_NATIVE_DOUBLE, make_space(extents), space, H5P_DEFAULT, values.data()), path,
                  column.path);
    for (std::size_t row = 0; row < count; ++row) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(row * column.width);
      std::copy(from, from + static_cast<std::ptrdiff_t>(column.width),
                rows[row].begin() + static_cast<std::ptrdiff_t>(offset));
    }
    offset += column.width;
  }
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [epochs](const EdgeRow& row) { return row[0] >= static_cast<double>(epochs); }),
             rows.end());
  return rows;
}

}  // namespace halograd
