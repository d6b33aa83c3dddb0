#include "io/metrics.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/durable.hpp"
#include "io/edge_metrics.hpp"
#include "io/hdf5.hpp"
#include "io/metrics_columns.hpp"
#include "io/metrics_read.hpp"
#include "kernels/error.hpp"
#include "support/wait.hpp"

namespace halograd {
namespace {

/// Rows of a chunk: about 64 KiB, so that neither a few ranks nor thousands make a wasteful file.
hsize_t chunk_rows(hsize_t width) {
  return std::clamp<hsize_t>(8192 / width, 1, 1024);
}

std::vector<hsize_t> row_extents(hsize_t rows, bool per_rank, int ranks) {
  if (per_rank) return {rows, static_cast<hsize_t>(ranks)};
  return {rows};
}

template <class Column>
void make_column(const Hdf5File& file, const Column& column, int ranks, const std::string& metric,
                 const std::string& path) {
  const std::string name = for_metric(column.path, metric);
  const auto start = row_extents(0, column.per_rank, ranks);
  const auto most = row_extents(H5S_UNLIMITED, column.per_rank, ranks);
  const auto chunk = row_extents(chunk_rows(column.per_rank ? ranks : 1), column.per_rank, ranks);
  const int dimensions = static_cast<int>(start.size());
  const Hdf5Space space(HALOGRAD_HDF5(H5Screate_simple(dimensions, start.data(), most.data()), path, name));
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(H5P_DATASET_CREATE), path, name));
  HALOGRAD_HDF5(H5Pset_chunk(creation, dimensions, chunk.data()), path, name);
  const Hdf5Dataset dataset(
      HALOGRAD_HDF5(H5Dcreate2(file, name.c_str(), column.integer ? H5T_STD_I64LE : H5T_IEEE_F64LE, space, H5P_DEFAULT,
                               creation, H5P_DEFAULT),
                    path, name));
  write_attribute(dataset, "unit", std::string(column.unit), path);
  write_attribute(dataset, "description", for_metric(column.description, metric), path);
}

/// Appends `rows` rows to a column and shows them to readers.
void append(const Hdf5Dataset& dataset, const std::string& name, bool per_rank, int ranks, hsize_t rows,
            const double* values, const std::string& path) {
  if (rows == 0) return;
  const hsize_t present = dataset_extents(dataset, name, path)[0];
  HALOGRAD_HDF5(H5Dset_extent(dataset, row_extents(present + rows, per_rank, ranks).data()), path, name);
  const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), path, name));
  const auto count = row_extents(rows, per_rank, ranks);
  std::vector<hsize_t> start(count.size(), 0);
  start[0] = present;
  HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path, name);
  HALOGRAD_HDF5(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, make_space(count), space, H5P_DEFAULT, values), path, name);
  HALOGRAD_HDF5(H5Dflush(dataset), path, name);
}

template <class Columns>
void copy_rows(const Hdf5File& file, const Columns& columns, const MetricsTable& table, std::int64_t rows,
               const std::string& path) {
  for (const auto& column : columns) {
    const std::string name = for_metric(column.path, table.metric);
    append(open_dataset(file, name, path), name, column.per_rank, table.ranks, static_cast<hsize_t>(rows),
           table.columns.at(name).data(), path);
  }
}

double of_absent_rank(bool integer) {
  return integer ? 0 : std::numeric_limits<double>::quiet_NaN();
}

template <class Columns>
void widen(const Columns& columns, MetricsTable& table, int width) {
  const auto from = static_cast<std::size_t>(table.ranks), to = static_cast<std::size_t>(width);
  for (const auto& column : columns) {
    if (!column.per_rank) continue;
    std::vector<double>& values = table.columns.at(for_metric(column.path, table.metric));
    std::vector<double> wide(values.size() / from * to, of_absent_rank(column.integer));
    for (std::size_t i = 0; i < values.size(); ++i) wide[i / from * to + i % from] = values[i];
    values = std::move(wide);
  }
}

/// The same rows with columns for more ranks.
void widen(MetricsTable& table, int width) {
  if (width == table.ranks) return;
  widen(step_columns, table, width);
  widen(epoch_columns, table, width);
  table.ranks = width;
}

/// At least the bytes that so many rows add: the values, a chunk that is begun in each column, its index and
/// attributes.
std::size_t growth_bytes(std::int64_t rows, int ranks) {
  const std::size_t row = std::max(step_columns.size(), epoch_columns.size()) * static_cast<std::size_t>(ranks) * 8;
  const std::size_t chunk = std::max<std::size_t>(65536, static_cast<std::size_t>(ranks) * 8);
  return static_cast<std::size_t>(rows) * row + (step_columns.size() + epoch_columns.size()) * 2 * chunk;
}

std::size_t edge_bytes(std::size_t rows) {
  return rows * sizeof(EdgeRow) + edge_columns.size() * 65536;
}

/// A complete file with no writer, put in the place of `path` as a whole; then it can be opened for a writer beside
/// readers, and there is no moment at which a crash would leave a file that cannot be opened.
void make_file(const std::string& path, int ranks, const std::string& metric, const MetricsTable* kept,
               std::int64_t steps, std::int64_t epochs, const std::vector<EdgeRow>& edges = {}) {
  const std::string partial = path + ".partial";
  try {
    Hdf5File file = create_hdf5(partial, H5F_LIBVER_V110,
                                growth_bytes(steps, ranks) + growth_bytes(epochs, ranks) + edge_bytes(edges.size()));
    write_attribute(file, "format", std::string(metrics_format), partial);
    write_attribute(file, "format_version", metrics_format_version, partial);
    write_attribute(file, "ranks", static_cast<std::int64_t>(ranks), partial);
    write_attribute(file, "metric", metric, partial);
    for (const char* group : {"step", "epoch"}) {
      Hdf5Group(HALOGRAD_HDF5(H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), partial, group));
    }
    for (const auto& column : step_columns) make_column(file, column, ranks, metric, partial);
    for (const auto& column : epoch_columns) make_column(file, column, ranks, metric, partial);
    make_edge_columns(file, partial);
    append_edges(open_edge_columns(file, partial), edges, partial);
    if (kept != nullptr) {
      copy_rows(file, step_columns, *kept, steps, partial);
      copy_rows(file, epoch_columns, *kept, epochs, partial);
    }
    HALOGRAD_HDF5(file.close(), partial, "file");
    publish_file(partial, path);
  } catch (const Error&) {
    ::unlink(partial.c_str());
    throw;
  }
}

}  // namespace

class MetricsFile::Implementation {
 public:
  Implementation(MPI_Comm comm, std::string path, std::string metric, std::int64_t steps, std::int64_t epochs)
      : comm_(comm),
        path_(std::move(path)),
        metric_(std::move(metric)),
        steps_(std::max<std::int64_t>(steps, 0)),
        epochs_(std::max<std::int64_t>(epochs, 0)) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &ranks_);
    width_ = ranks_;
    together(comm, [&] {
      if (rank_ == 0) open(steps, epochs);
    });
  }

  void add_step(const StepMetrics& row) { rows_.push_back(row); }

  void flush() {
    require_same_count();
    together(comm_, [&] {
      if (rank_ != 0) return;
      const auto lock = hdf5_session();
      reserve_growth(descriptor(), growth_bytes(static_cast<std::int64_t>(rows_.size()), width_), path_);
    });
    // gathered column by column and in bounded pieces: rank 0 of a large job never holds an epoch of all ranks
    const std::size_t piece = std::max<std::size_t>(1, (std::size_t{1} << 20) / static_cast<std::size_t>(ranks_));
    for (std::size_t begin = 0; begin < rows_.size(); begin += piece) {
      const std::size_t end = std::min(rows_.size(), begin + piece);
      const std::vector<StepMetrics> rows(rows_.begin() + static_cast<std::ptrdiff_t>(begin),
                                          rows_.begin() + static_cast<std::ptrdiff_t>(end));
      for (std::size_t i = 0; i < step_columns.size(); ++i) append_gathered(step_columns[i], step_datasets_, i, rows);
    }
    steps_ += static_cast<std::int64_t>(rows_.size());
    rows_.clear();
    finish();
  }

  void add_epoch(EpochMetrics row, const std::vector<EdgeRecord>& edges) {
    flush();
    append_edges_of_all(edges);
    row.steps = steps_;
    for (std::size_t i = 0; i < epoch_columns.size(); ++i) append_gathered(epoch_columns[i], epoch_datasets_, i, {row});
    ++epochs_;
    finish();
  }

 private:
  void open(std::int64_t steps, std::int64_t epochs) {
    const auto lock = hdf5_session();
    if (steps < 0) {
      make_file(path_, ranks_, metric_, nullptr, 0, 0);
    } else {
      MetricsTable table = read_metrics(path_);
      HALOGRAD_REQUIRE(table.metric == metric_, path_, ": holds scores of the metric ", table.metric,
                       ", the run's are ", metric_);
      HALOGRAD_REQUIRE(epochs >= 0 && table.steps >= steps && table.epochs >= epochs, path_, ": holds ", table.steps,
                       " steps and ", table.epochs, " epochs, fewer than the ", steps, " and ", epochs,
                       " to go on from: not the metrics of that checkpoint");
      width_ = std::max(ranks_, table.ranks);
      widen(table, width_);
      std::vector<EdgeRow> edges;
      {
        const Hdf5File before = open_hdf5(path_, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
        edges = read_edges(before, epochs, path_);
      }
      make_file(path_, width_, metric_, &table, steps, epochs, edges);
    }
    file_ = open_hdf5(path_, H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE);
    for (const auto& column : step_columns)
      step_datasets_.push_back(open_dataset(file_, for_metric(column.path, metric_), path_));
    for (const auto& column : epoch_columns)
      epoch_datasets_.push_back(open_dataset(file_, for_metric(column.path, metric_), path_));
    edge_datasets_ = open_edge_columns(file_, path_);
  }

  void require_same_count() {
    const auto count = static_cast<std::int64_t>(rows_.size());
    const std::array<std::int64_t, 2> both{count, -count};  // the largest of x and of -x in one reduction
    std::array<std::int64_t, 2> most{};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(both.data(), most.data(), 2, MPI_INT64_T, MPI_MAX, comm_, &request);
    wait_politely(request);
    HALOGRAD_REQUIRE(most[0] == -most[1], path_, ": the ranks report different numbers of steps: ", -most[1], " to ",
                     most[0]);
  }

  template <class Row>
  void append_gathered(const MetricsColumn<Row>& column, const std::vector<Hdf5Dataset>& datasets, std::size_t position,
                       const std::vector<Row>& rows) {
    std::vector<double> mine(rows.size());
    std::transform(rows.begin(), rows.end(), mine.begin(), column.value);
    const int count = static_cast<int>(mine.size());
    std::vector<double> values;
    if (column.per_rank) {
      std::vector<double> gathered(rank_ == 0 ? mine.size() * static_cast<std::size_t>(ranks_) : 0);
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Igather(mine.data(), count, MPI_DOUBLE, gathered.data(), count, MPI_DOUBLE, 0, comm_, &request);
      wait_politely(request);
      const auto width = static_cast<std::size_t>(width_);
      values.assign(rank_ == 0 ? mine.size() * width : 0, of_absent_rank(column.integer));
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        const std::size_t rank = i / mine.size(), row = i % mine.size();
        values[row * width + rank] = gathered[i];
      }
    } else {
      values = mine;
    }
    if (rank_ != 0 || !error_.empty()) return;
    try {
      const auto lock = hdf5_session();
      append(datasets[position], column.path, column.per_rank, width_, rows.size(), values.data(), path_);
    } catch (const Error& error) {
      error_ = error.what();
    }
  }

  void append_edges_of_all(const std::vector<EdgeRecord>& edges) {
    const std::vector<EdgeRow> rows = gather_edges(comm_, edges, epochs_);
    if (rank_ != 0 || !error_.empty()) return;
    try {
      const auto lock = hdf5_session();
      reserve_growth(descriptor(), rows.empty() ? 0 : edge_bytes(rows.size()), path_);
      append_edges(edge_datasets_, rows, path_);
    } catch (const Error& error) {
      error_ = error.what();
    }
  }

  [[nodiscard]] int descriptor() const {
    void* handle = nullptr;
    HALOGRAD_HDF5(H5Fget_vfd_handle(file_, H5P_DEFAULT, &handle), path_, "file");
    return *static_cast<int*>(handle);
  }

  /// Makes the rows durable, and an error of rank 0 everybody's.
  void finish() {
    together(comm_, [&] {
      if (rank_ != 0) return;
      if (!error_.empty()) throw Error(error_);
      const auto lock = hdf5_session();
      HALOGRAD_HDF5(H5Fflush(file_, H5F_SCOPE_GLOBAL), path_, "file");
      HALOGRAD_REQUIRE(::fsync(descriptor()) == 0, path_, ": fsync failed");
    });
  }

  MPI_Comm comm_;
  std::string path_, metric_;
  int rank_ = 0;
  int ranks_ = 1;
  int width_ = 1;                        ///< columns of the file: the most ranks that the run has had; on rank 0
  std::int64_t steps_ = 0, epochs_ = 0;  ///< in the file
  std::string error_;
  std::vector<StepMetrics> rows_;
  // in this order, so that the datasets are closed before the file; on rank 0 only
  Hdf5File file_;
  std::vector<Hdf5Dataset> step_datasets_;
  std::vector<Hdf5Dataset> epoch_datasets_;
  std::vector<Hdf5Dataset> edge_datasets_;
};

MetricsFile::MetricsFile(MPI_Comm comm, const std::string& path, std::int64_t steps, std::int64_t epochs,
                         const std::string& metric)
    : implementation_(std::make_unique<Implementation>(comm, path, metric, steps, epochs)) {}

MetricsFile::~MetricsFile() = default;

void MetricsFile::add_step(const StepMetrics& row) {
  implementation_->add_step(row);
}

void MetricsFile::flush() {
  implementation_->flush();
}

void MetricsFile::add_epoch(const EpochMetrics& row, const std::vector<EdgeRecord>& edges) {
  implementation_->add_epoch(row, edges);
}

}  // namespace halograd
