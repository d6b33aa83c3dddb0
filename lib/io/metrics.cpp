#include "io/metrics.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "hdf5/files.hpp"
#include "hdf5/rows.hpp"
#include "io/edge_metrics.hpp"
#include "io/metrics_columns.hpp"
#include "io/metrics_read.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

std::size_t width_of(bool per_rank, int ranks) {
  return per_rank ? static_cast<std::size_t>(ranks) : 0;
}

template <class Columns>
void make_columns(const Hdf5File& file, const Columns& columns, int ranks, const std::string& metric,
                  const std::string& path) {
  for (const auto& column : columns) {
    make_row_dataset(file,
                     {for_metric(column.path, metric), column.unit, for_metric(column.description, metric),
                      column.integer, width_of(column.per_rank, ranks)},
                     path);
  }
}

template <class Columns>
void copy_rows(const Hdf5File& file, const Columns& columns, const MetricsTable& table, std::int64_t rows,
               const std::string& path) {
  for (const auto& column : columns) {
    const std::string name = for_metric(column.path, table.metric);
    append_rows(open_hdf5_dataset(file, name, path), name, static_cast<std::size_t>(rows),
                width_of(column.per_rank, table.ranks), table.columns.at(name).data(), path);
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

template <class Columns>
std::size_t columns_growth_bytes(const Columns& columns, std::int64_t rows, int ranks) {
  std::size_t bytes = 0;
  for (const auto& column : columns) {
    bytes += growth_bytes(static_cast<std::size_t>(rows), width_of(column.per_rank, ranks));
  }
  return bytes;
}

/// A complete file with no writer, put in the place of `path` as a whole; then it can be opened for a writer beside
/// readers, and there is no moment at which a crash would leave a file that cannot be opened.
void make_file(const std::string& path, int ranks, const std::string& metric, const MetricsTable* kept,
               std::int64_t steps, std::int64_t epochs, const std::vector<EdgeRow>& edges = {}) {
  const std::string partial = path + ".partial";
  try {
    // not on the disk: HDF5 1.14.5 does not survive a close after a write that failed
    Hdf5MemoryFile memory(partial, columns_growth_bytes(step_columns, steps, ranks) +
                                       columns_growth_bytes(epoch_columns, epochs, ranks) +
                                       edge_growth_bytes(edges.size()));
    const Hdf5File& file = memory.file();
    write_attribute(file, "format", std::string(metrics_format), partial);
    write_attribute(file, "format_version", metrics_format_version, partial);
    write_attribute(file, "ranks", static_cast<std::int64_t>(ranks), partial);
    write_attribute(file, "metric", metric, partial);
    for (const char* group : {"step", "epoch"}) create_group(file, group, partial);
    make_columns(file, step_columns, ranks, metric, partial);
    make_columns(file, epoch_columns, ranks, metric, partial);
    make_edge_columns(file, partial);
    append_edges(open_edge_columns(file, partial), edges, partial);
    if (kept != nullptr) {
      copy_rows(file, step_columns, *kept, steps, partial);
      copy_rows(file, epoch_columns, *kept, epochs, partial);
    }
    memory.write();
    publish_file(partial, path);
  } catch (const Error&) {
    ::unlink(partial.c_str());
    throw;
  }
}

}  // namespace

class MetricsFile::Implementation {
 public:
  Implementation(const Communicator& comm, std::string path, std::string metric, std::int64_t steps,
                 std::int64_t epochs)
      : comm_(comm),
        path_(std::move(path)),
        metric_(std::move(metric)),
        rank_(comm.rank()),
        ranks_(comm.ranks()),
        width_(ranks_),
        steps_(std::max<std::int64_t>(steps, 0)),
        epochs_(std::max<std::int64_t>(epochs, 0)) {
    comm.together([&] {
      if (rank_ == 0) open(steps, epochs);
    });
    width_ = comm.broadcast(width_);
  }

  /// Gives back the room that was reserved and not used.
  ~Implementation() {
    if (file_ < 0) return;
    step_datasets_.clear();
    epoch_datasets_.clear();
    edge_datasets_.clear();
    if (file_.close() >= 0) release_reserve(path_);
  }
  void close() {
    comm_.together([&] {
      if (file_ < 0) return;
      step_datasets_.clear();
      epoch_datasets_.clear();
      edge_datasets_.clear();
      HALOGRAD_HDF5(file_.close(), path_, "file");
      release_reserve(path_);
    });
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  void add_step(const StepMetrics& row) { add_step(row, {rows_.empty() ? steps_ : rows_.back().cell.row + 1, rank_}); }

  void add_step(const StepMetrics& row, const StepCell& cell) {
    HALOGRAD_REQUIRE(cell.row >= (rows_.empty() ? steps_ : rows_.back().cell.row) && cell.column < ranks_, path_,
                     ": row ", cell.row, " of a step is in the file already, or its column ", cell.column,
                     " is that of no rank");
    rows_.push_back({row, cell});
    rows_.back().values.rank = rank_;
  }

  void flush(std::int64_t steps) {
    const std::int64_t added = rows_.empty() ? steps_ : rows_.back().cell.row + 1;
    const std::int64_t end = comm_.largest(std::max(added, steps));
    comm_.together([&] {
      if (rank_ != 0) return;
      const Hdf5Session session;
      reserve_growth(descriptor(), columns_growth_bytes(step_columns, end - steps_, width_), path_);
    });
    // gathered column by column and in bounded pieces: rank 0 of a large job never holds an epoch of all ranks
    const std::int64_t piece = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / ranks_);
    for (; steps_ < end; steps_ = std::min(end, steps_ + piece)) append_steps(steps_, std::min(end, steps_ + piece));
    rows_.clear();
    finish();
  }

  void add_epoch(const EpochMetrics& row, const std::vector<EdgeRecord>& edges) {
    flush(row.steps);
    append_edges_of_all(edges);
    append_epoch(row);
    ++epochs_;
    finish();
  }

 private:
  void open(std::int64_t steps, std::int64_t epochs) {
    const Hdf5Session session;
    if (steps < 0) {
      make_file(path_, ranks_, metric_, nullptr, 0, 0);
    } else {
      MetricsTable table = read_metrics(path_, steps, {steps, epochs});
      HALOGRAD_REQUIRE(table.metric == metric_, path_, ": holds scores of the metric ", table.metric,
                       ", but the run needs ", metric_);
      HALOGRAD_REQUIRE(epochs >= 0 && table.steps >= steps && table.epochs >= epochs, path_, ": holds ", table.steps,
                       " steps and ", table.epochs, " epochs, fewer than the ", steps, " and ", epochs,
                       " of the checkpoint: these are not the metrics of that checkpoint");
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
      step_datasets_.push_back(open_hdf5_dataset(file_, for_metric(column.path, metric_), path_));
    for (const auto& column : epoch_columns)
      epoch_datasets_.push_back(open_hdf5_dataset(file_, for_metric(column.path, metric_), path_));
    edge_datasets_ = open_edge_columns(file_, path_);
  }

  /// The cells of all ranks in rows [begin, end) of /step, wherever each rank's are.
  void append_steps(std::int64_t begin, std::int64_t end) {
    const auto before = [](const StepRow& row, std::int64_t number) { return row.cell.row < number; };
    const auto first = std::lower_bound(rows_.begin(), rows_.end(), begin, before);
    const auto last = std::lower_bound(first, rows_.end(), end, before);
    std::vector<std::int64_t> cells;
    for (auto row = first; row != last; ++row) cells.push_back((row->cell.row - begin) * width_ + row->cell.column);
    const std::vector<std::int64_t> all_cells = comm_.join_on_root(cells);
    std::vector<double> values, mine;
    for (std::size_t i = 0; i < step_columns.size(); ++i) {
      const auto& column = step_columns[i];
      mine.clear();
      for (auto row = first; row != last; ++row) mine.push_back(column.value(row->values));
      const std::vector<double> all = comm_.join_on_root(mine);
      if (rank_ != 0) continue;
      values.assign(static_cast<std::size_t>((end - begin) * width_), of_absent_rank(column.integer));
      for (std::size_t k = 0; k < all.size(); ++k) values[static_cast<std::size_t>(all_cells[k])] = all[k];
      append(step_datasets_[i], column, static_cast<std::size_t>(end - begin), values);
    }
  }

  void append_epoch(const EpochMetrics& row) {
    for (std::size_t i = 0; i < epoch_columns.size(); ++i) {
      const auto& column = epoch_columns[i];
      std::vector<double> values{column.value(row)};
      if (column.per_rank) {
        values = comm_.gather_on_root(values.front());
        values.resize(static_cast<std::size_t>(width_), of_absent_rank(column.integer));
      }
      if (rank_ == 0) append(epoch_datasets_[i], column, 1, values);
    }
  }

  /// On rank 0; an error is kept for finish().
  template <class Row>
  void append(const Hdf5Dataset& dataset, const MetricsColumn<Row>& column, std::size_t rows,
              const std::vector<double>& values) {
    if (error_) return;
    try {
      const Hdf5Session session;
      append_rows(dataset, column.path, rows, width_of(column.per_rank, width_), values.data(), path_);
    } catch (const Error&) {
      error_ = std::current_exception();
    }
  }

  void append_edges_of_all(const std::vector<EdgeRecord>& edges) {
    const std::vector<EdgeRow> rows = gather_edges(comm_, edges, epochs_);
    if (rank_ != 0 || error_) return;
    try {
      const Hdf5Session session;
      // the row of /epoch follows
      reserve_growth(descriptor(), edge_growth_bytes(rows.size()) + columns_growth_bytes(epoch_columns, 1, width_),
                     path_);
      append_edges(edge_datasets_, rows, path_);
    } catch (const Error&) {
      error_ = std::current_exception();
    }
  }

  [[nodiscard]] int descriptor() const {
    void* handle = nullptr;
    HALOGRAD_HDF5(H5Fget_vfd_handle(file_, H5P_DEFAULT, &handle), path_, "file");
    return *static_cast<int*>(handle);
  }

  /// Makes the rows durable, and an error of rank 0 everybody's.
  void finish() {
    comm_.together([&] {
      if (rank_ != 0) return;
      if (error_) std::rethrow_exception(error_);
      const Hdf5Session session;
      HALOGRAD_HDF5(H5Fflush(file_, H5F_SCOPE_GLOBAL), path_, "file");
      HALOGRAD_REQUIRE(::fsync(descriptor()) == 0, path_, ": fsync failed: ", system_reason());
    });
  }

  Communicator comm_;
  std::string path_, metric_;
  int rank_, ranks_;
  int width_;                            ///< columns of the file: the most ranks that the run has had
  std::int64_t steps_ = 0, epochs_ = 0;  ///< in the file
  std::exception_ptr error_;
  std::vector<StepRow> rows_;
  // in this order, so that the datasets are closed before the file; on rank 0 only
  Hdf5File file_;
  std::vector<Hdf5Dataset> step_datasets_;
  std::vector<Hdf5Dataset> epoch_datasets_;
  std::vector<Hdf5Dataset> edge_datasets_;
};

MetricsFile::MetricsFile(const Communicator& comm, const std::string& path, std::int64_t steps, std::int64_t epochs,
                         const std::string& metric)
    : implementation_(std::make_unique<Implementation>(comm, path, metric, steps, epochs)) {}

MetricsFile::~MetricsFile() = default;

void MetricsFile::add_step(const StepMetrics& row) {
  implementation_->add_step(row);
}

void MetricsFile::add_step(const StepMetrics& row, const StepCell& cell) {
  implementation_->add_step(row, cell);
}

void MetricsFile::flush(std::int64_t steps) {
  implementation_->flush(steps);
}

void MetricsFile::close() {
  implementation_->close();
}

void MetricsFile::add_epoch(const EpochMetrics& row, const std::vector<EdgeRecord>& edges) {
  implementation_->add_epoch(row, edges);
}

}  // namespace halograd
