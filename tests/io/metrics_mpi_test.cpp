#include "io/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "io/metrics_columns.hpp"
#include "io/metrics_read.hpp"
#include "mpi/communicator.hpp"
#include "tests/io/metrics_rows.hpp"
#include "tests/io/mpi_helpers.hpp"

namespace halograd::metrics_mpi_test {
namespace {

using namespace test;

/// Collective: a rank that went on could replace the file while a slower one still reads it.
void expect_rows(const std::string& path, std::int64_t steps, std::int64_t epochs) {
  meet();
  const MetricsTable table = read_metrics(path);
  meet();
  const int ranks = ranks_of();
  ASSERT_EQ(table.ranks, ranks);
  ASSERT_EQ(table.steps, steps);
  ASSERT_EQ(table.epochs, epochs);
  for (const auto& column : step_columns) {
    const std::vector<double>& values = table.columns.at(column.path);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(steps * ranks));
    for (std::int64_t i = 0; i < steps * ranks; ++i) {
      const StepMetrics row = step_row(i / ranks, static_cast<int>(i % ranks));
      EXPECT_EQ(values[static_cast<std::size_t>(i)], column.value(row)) << column.path << " " << i;
    }
  }
  for (const auto& column : epoch_columns) {
    const int width = column.per_rank ? ranks : 1;
    const std::vector<double>& values = table.columns.at(column.path);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(epochs * width));
    for (std::int64_t i = 0; i < epochs * width; ++i) {
      const EpochMetrics row = epoch_row(i / width, static_cast<int>(i % width));
      EXPECT_EQ(values[static_cast<std::size_t>(i)], column.value(row)) << column.path << " " << i;
    }
  }
}

void copy(const std::string& from, const std::string& to) {
  on_root([&] { std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing); });
}

TEST(Metrics, RowsComeBack) {
  const Folder folder;
  {
    MetricsFile file(MPI_COMM_WORLD, folder.file("metrics.h5"));
    write_epochs(file, 0, 3);
  }
  expect_rows(folder.file("metrics.h5"), 3 * steps_in_epoch, 3);
}

/// What rank `to` has counted on its edge `number` in an epoch; rank r has r mod 3 edges.
TEST(Metrics, TheLastRowsAloneAndWhetherThereIsAWriter) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  constexpr std::int64_t last = 4;
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    write_epochs(file, 0, 3);
    EXPECT_TRUE(has_writer(path));
    meet();
  }
  meet();
  EXPECT_FALSE(has_writer(path));
  const MetricsTable table = read_metrics(path, last);
  EXPECT_EQ(table.steps, 3 * steps_in_epoch);
  EXPECT_EQ(table.epochs, 3);
  ASSERT_EQ(table.first_step, table.steps - last);
  const std::vector<double>& losses = table.columns.at("/step/loss");
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(last * table.ranks));
  for (std::int64_t row = 0; row < last; ++row) {
    for (int rank = 0; rank < table.ranks; ++rank)
      EXPECT_EQ(losses[static_cast<std::size_t>(row * table.ranks + rank)],
                step_row(table.first_step + row, rank).loss);
  }
  EXPECT_EQ(table.columns.at("/epoch/seconds").size(), 3U);
  EXPECT_EQ(read_metrics(path, 1000).first_step, 0);
  meet();
}

TEST(Metrics, ManyRowsCrossChunks) {
  const Folder folder;
  constexpr std::int64_t steps = 9000;  // more than a chunk at every number of ranks
  {
    MetricsFile file(MPI_COMM_WORLD, folder.file("metrics.h5"));
    for (std::int64_t step = 0; step < steps; ++step) file.add_step(step_row(step, rank_of()));
    file.flush(0);
  }
  expect_rows(folder.file("metrics.h5"), steps, 0);
}

TEST(Metrics, AnEmptyFileIsWhole) {
  const Folder folder;
  { MetricsFile file(MPI_COMM_WORLD, folder.file("metrics.h5")); }
  expect_rows(folder.file("metrics.h5"), 0, 0);
}

TEST(Metrics, ResumeCutsBack) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    write_epochs(file, 0, 4);
  }
  meet();
  {
    MetricsFile file(MPI_COMM_WORLD, path, 2 * steps_in_epoch, 2);
    copy(path, folder.file("cut.h5"));
    write_epochs(file, 2, 3);
  }
  expect_rows(folder.file("cut.h5"), 2 * steps_in_epoch, 2);
  expect_rows(path, 3 * steps_in_epoch, 3);
}

TEST(Metrics, ResumeWithinAnEpoch) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    write_epochs(file, 0, 1);
    for (int step = 5; step < 7; ++step) file.add_step(step_row(step, rank_of()));
    file.flush(0);
    file.add_step(step_row(99, rank_of()));  // after the flush: nobody asked for it to be kept
  }
  expect_rows(path, 7, 1);
  {
    MetricsFile file(MPI_COMM_WORLD, path, 7, 1);
    for (int step = 7; step < 10; ++step) file.add_step(step_row(step, rank_of()));
    file.add_epoch(epoch_row(1, rank_of()));
  }
  expect_rows(path, 10, 2);
}

TEST(Metrics, WhatACrashLeftOpenIsReadAndResumed) {
  const Folder folder;
  const std::string crashed = folder.file("crashed.h5");
  {
    MetricsFile file(MPI_COMM_WORLD, folder.file("metrics.h5"));
    write_epochs(file, 0, 2);
    copy(folder.file("metrics.h5"), crashed);  // the bytes on disk while the writer has it open
  }
  expect_rows(crashed, 2 * steps_in_epoch, 2);
  {
    MetricsFile file(MPI_COMM_WORLD, crashed, steps_in_epoch, 1);
    write_epochs(file, 1, 3);
  }
  expect_rows(crashed, 3 * steps_in_epoch, 3);
}

TEST(Metrics, ANewFileReplacesTheOld) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  for (const int epochs : {3, 1}) {
    {
      MetricsFile file(MPI_COMM_WORLD, path);
      write_epochs(file, 0, epochs);
    }
    expect_rows(path, epochs * steps_in_epoch, epochs);
  }
}

TEST(Metrics, RefusesToResumeWhatDoesNotFit) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  expect_error([&] { MetricsFile file(MPI_COMM_WORLD, path, 5, 1); }, {path, "No such file"});
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    write_epochs(file, 0, 1);
  }
  meet();
  expect_error([&] { MetricsFile file(MPI_COMM_WORLD, path, 6, 1); }, {path, "5 steps and 1 epochs", "6 and 1"});
  expect_error([&] { MetricsFile file(MPI_COMM_WORLD, path, 5, 2); }, {path, "5 and 2"});
  expect_rows(path, steps_in_epoch, 1);  // and is as it was
  on_root([&] { std::ofstream(folder.file("text")) << "step loss 0.3 and so on\n"; });
  expect_error([&] { MetricsFile file(MPI_COMM_WORLD, folder.file("text"), 0, 0); }, {"text", "not an HDF5 file"});
}

TEST(Metrics, GoesOnOnAnotherNumberOfRanks) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  const auto row = [](double loss) {
    StepMetrics metrics;
    metrics.loss = loss;
    metrics.bytes_sent = 7;
    return metrics;
  };
  const auto steps = [&](MPI_Comm comm, std::int64_t from, double loss) {
    MetricsFile file(comm, path, from, from < 0 ? -1 : 0);
    for (int step = 0; step < 2; ++step) file.add_step(row(loss));
    file.flush(0);
  };
  if (rank_of() == 0) steps(MPI_COMM_SELF, -1, 1);
  meet();
  steps(MPI_COMM_WORLD, 2, 2);
  meet();
  const int fewer = std::max(1, ranks_of() - 1);
  {
    const OwnedComm part = Communicator(MPI_COMM_WORLD).split(rank_of() < fewer ? 0 : 1);
    if (rank_of() < fewer) steps(part.handle(), 4, 3);
  }
  meet();
  const MetricsTable table = read_metrics(path);
  ASSERT_EQ(table.ranks, ranks_of());
  ASSERT_EQ(table.steps, 6);
  const auto ranks = static_cast<std::size_t>(ranks_of());
  for (std::size_t step = 0; step < 6; ++step) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const bool absent = (rank > 0 && step < 2) || (rank >= static_cast<std::size_t>(fewer) && step >= 4);
      const double loss = table.columns.at("/step/loss")[step * ranks + rank];
      EXPECT_TRUE(absent ? std::isnan(loss) : loss == static_cast<double>(1 + step / 2)) << step << ", " << rank;
      EXPECT_EQ(table.columns.at("/step/bytes_sent")[step * ranks + rank], absent ? 0 : 7);
    }
  }
}

TEST(Metrics, RefusesAPathThatCannotBeWritten) {
  const Folder folder;
  on_root([&] { std::ofstream(folder.file("file")) << "x"; });
  const std::string path = folder.file("file/metrics.h5");
  expect_error([&] { MetricsFile file(MPI_COMM_WORLD, path); }, {path, "Not a directory"});
}

/// Rank r makes the steps of row and column (i + r) / R, (i + r) mod R: where ranks go at their own pace, whose step it
/// is does not follow from where it stands.
TEST(Metrics, CellsOfOtherColumnsComeTogetherAndWhatNobodyGivesIsNaN) {
  const Folder folder;
  const int ranks = ranks_of(), rank = rank_of(), rows = 4;
  const std::string path = folder.file("metrics.h5");
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    for (int row = 0; row < rows; ++row) {
      const bool left_out = row == 2 && rank == 0;
      if (!left_out) file.add_step(step_row(row, rank), {row, (rank + row) % ranks});
    }
    file.flush(0);
    EXPECT_THROW(file.add_step(step_row(0, rank), {rows - 1, rank}), Error) << "is in the file already";
    EXPECT_THROW(file.add_step(step_row(0, rank), {rows, ranks}), Error) << "no such column";
    file.flush(rows + 2);
  }
  meet();
  const MetricsTable table = read_metrics(path);
  ASSERT_EQ(table.steps, rows + 2);
  for (int row = rows; row < rows + 2; ++row) {
    for (int column = 0; column < ranks; ++column) {
      EXPECT_TRUE(std::isnan(table.columns.at("/step/loss")[static_cast<std::size_t>(row * ranks + column)]));
    }
  }
  for (int row = 0; row < rows; ++row) {
    for (int maker = 0; maker < ranks; ++maker) {
      const auto at = static_cast<std::size_t>(row * ranks + (maker + row) % ranks);
      const double loss = table.columns.at("/step/loss")[at];
      if (row == 2 && maker == 0) {
        EXPECT_TRUE(std::isnan(loss));
        continue;
      }
      EXPECT_EQ(loss, step_row(row, maker).loss);
      EXPECT_EQ(table.columns.at("/step/rank")[at], maker);
    }
  }
}

TEST(Metrics, H5pyReadsALiveFile) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  MetricsFile file(MPI_COMM_WORLD, path);
  check_with_h5py("--metrics " + path + " --steps 0 --epochs 0");
  write_epochs(file, 0, 2);
  check_with_h5py("--metrics " + path + " --steps " + std::to_string(2 * steps_in_epoch) + " --epochs 2");
}

}  // namespace
}  // namespace halograd::metrics_mpi_test
