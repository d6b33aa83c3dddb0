#include "io/edge_metrics.hpp"

#include <algorithm>
#include <limits>

#include "hdf5/rows.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

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

/// How many of the first `rows` rows, which are in the order of epochs, are of epochs before `end`. What comes after
/// them is not read: a power cut may have left rows that cannot be.
std::size_t rows_before(std::int64_t end, const Hdf5Dataset& epochs, std::size_t rows, const std::string& path) {
  constexpr std::size_t piece = 512;
  const auto is_later = [end](double epoch) { return epoch >= static_cast<double>(end); };
  for (std::size_t first = 0; first < rows && end > 0; first += piece) {
    const auto values = read_rows(epochs, edge_columns[0].path, first, std::min(piece, rows - first), 0, path);
    const auto later = std::find_if(values.begin(), values.end(), is_later);
    if (later != values.end()) return first + static_cast<std::size_t>(later - values.begin());
  }
  return end > 0 ? rows : 0;
}

}  // namespace

std::vector<EdgeRow> gather_edges(const Communicator& comm, const std::vector<EdgeRecord>& records,
                                  std::int64_t epoch) {
  std::vector<EdgeRow> mine;
  mine.reserve(records.size());
  for (const EdgeRecord& record : records) mine.push_back(row_of(record, epoch, comm.rank()));
  return comm.join_on_root(mine);
}

void make_edge_columns(const Hdf5File& file, const std::string& path) {
  create_group(file, "edge", path);
  for (const EdgeColumn& column : edge_columns) {
    make_row_dataset(file, {column.path, column.unit, column.description, column.integer, column.width}, path);
  }
}

std::size_t edge_growth_bytes(std::size_t rows) {
  std::size_t bytes = 0;
  for (const EdgeColumn& column : edge_columns) bytes += rows == 0 ? 0 : growth_bytes(rows, column.width);
  return bytes;
}

std::vector<Hdf5Dataset> open_edge_columns(const Hdf5File& file, const std::string& path) {
  std::vector<Hdf5Dataset> datasets;
  datasets.reserve(edge_columns.size());
  for (const EdgeColumn& column : edge_columns) datasets.push_back(open_hdf5_dataset(file, column.path, path));
  return datasets;
}

void append_edges(const std::vector<Hdf5Dataset>& datasets, const std::vector<EdgeRow>& rows, const std::string& path) {
  if (rows.empty()) return;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < edge_columns.size(); ++i) {
    const EdgeColumn& column = edge_columns[i];
    std::vector<double> values;
    values.reserve(rows.size() * column.values());
    for (const EdgeRow& row : rows) {
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(offset);
      values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(column.values()));
    }
    offset += column.values();
    append_rows(datasets[i], column.path, rows.size(), column.width, values.data(), path);
  }
}

std::vector<EdgeRow> read_edges(const Hdf5File& file, std::int64_t epochs, const std::string& path) {
  if (!has_link(file, "edge", path)) return {};
  const std::vector<Hdf5Dataset> datasets = open_edge_columns(file, path);
  auto count = std::numeric_limits<hsize_t>::max();  // a crash may have left one column longer than another
  for (std::size_t i = 0; i < edge_columns.size(); ++i) {
    const EdgeColumn& column = edge_columns[i];
    require_held(datasets[i], sizeof(double), column.path, path);
    const std::vector<hsize_t> extents = dataset_extents(datasets[i], column.path, path);
    HALOGRAD_REQUIRE(
        extents.size() == (column.width == 0 ? 1U : 2U) && (column.width == 0 || extents[1] == column.width), path,
        ": ", column.path, " has the extents ", listed(extents, " x "), ", expected rows",
        column.width == 0 ? std::string() : " of " + std::to_string(column.width));
    count = std::min(count, extents[0]);
  }
  count = rows_before(epochs, datasets[0], count, path);
  require_held_together(file, count * sizeof(EdgeRow), "the rows of /edge", path);
  std::vector<EdgeRow> rows(count);
  std::size_t offset = 0;
  for (std::size_t i = 0; i < edge_columns.size(); ++i) {
    const EdgeColumn& column = edge_columns[i];
    const std::vector<double> values = read_rows(datasets[i], column.path, 0, count, column.width, path);
    for (std::size_t row = 0; row < count; ++row) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(row * column.values());
      std::copy(from, from + static_cast<std::ptrdiff_t>(column.values()),
                rows[row].begin() + static_cast<std::ptrdiff_t>(offset));
    }
    offset += column.values();
  }
  return rows;
}

}  // namespace halograd
