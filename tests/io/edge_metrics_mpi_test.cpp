#include "io/edge_metrics.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/io/metrics_rows.hpp"
#include "tests/io/mpi_helpers.hpp"

namespace halograd::edge_metrics_mpi_test {
namespace {

using namespace test;

EdgeRecord edge_of(std::int64_t epoch, int to, int number) {
  EdgeRecord record;
  record.from = to + number + 1;
  record.halos = 10 * epoch + number;
  record.skipped = 3 + to;
  record.left_out = 2;
  record.bytes = std::int64_t{1} << 40;
  record.delay = 2.0 * static_cast<double>(record.halos);
  record.least_delay = 0.5;
  record.wait = 0.25 * to;
  for (std::size_t bin = 0; bin < staleness_bins; ++bin) record.staleness[bin] = 100 * to + static_cast<int>(bin);
  return record;
}

void write_edges(MetricsFile& file, std::int64_t first, std::int64_t last) {
  for (std::int64_t epoch = first; epoch < last; ++epoch) {
    std::vector<EdgeRecord> edges;
    for (int number = 0; number < rank_of() % 3; ++number) edges.push_back(edge_of(epoch, rank_of(), number));
    file.add_epoch(epoch_row(epoch, rank_of()), edges);
  }
}

void expect_edges(const std::string& path, std::int64_t epochs, std::int64_t first = 0) {
  meet();
  on_root([&] {
    const Hdf5Session session;
    const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
    const std::vector<EdgeRow> rows = read_edges(file, 1000, path);
    std::size_t at = 0;
    for (std::int64_t epoch = first; epoch < epochs; ++epoch) {
      for (int to = 0; to < ranks_of(); ++to) {
        for (int number = 0; number < to % 3; ++number, ++at) {
          ASSERT_LT(at, rows.size());
          const EdgeRecord edge = edge_of(epoch, to, number);
          const double e = static_cast<double>(epoch), halos = static_cast<double>(edge.halos);
          const std::array<double, 7> start{
              e, static_cast<double>(edge.from), static_cast<double>(to), halos, 3.0 + to, 2, 0x1p40};
          EXPECT_TRUE(std::equal(start.begin(), start.end(), rows[at].begin())) << at;
          EXPECT_TRUE(halos > 0 ? rows[at][7] == 2 : std::isnan(rows[at][7])) << at;
          EXPECT_EQ(rows[at][9], 0.25 * to);
          EXPECT_EQ(rows[at][10 + 5], 100 * to + 5);
        }
      }
    }
    EXPECT_EQ(at, rows.size());
  });
  meet();
}

TEST(Metrics, EdgesComeBackAndAreCutOnResume) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    write_edges(file, 0, 3);
  }
  expect_edges(path, 3);
  { MetricsFile file(MPI_COMM_WORLD, path, 0, 2); }
  expect_edges(path, 2);
  {
    MetricsFile file(MPI_COMM_WORLD, path, 0, 2);
    write_edges(file, 2, 4);
  }
  expect_edges(path, 4);
}

TEST(Metrics, AShortRunLeavesASmallFile) {
  const Folder folder;
  const std::string path = folder.file("metrics.h5");
  const auto most = static_cast<blkcnt_t>(192 * 1024 + 29 * 64 * 8 * std::max(0, ranks_of() - 8));
  {
    MetricsFile file(MPI_COMM_WORLD, path);
    write_epochs(file, 0, 2);
    write_edges(file, 2, 4);
    on_root([&] {
      struct stat status {};
      ASSERT_EQ(::stat(path.c_str(), &status), 0);
      EXPECT_LE(512 * status.st_blocks, 4 * most);  // with what the next flush may need
    });
  }
  on_root([&] {
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_LE(512 * status.st_blocks, most);
    EXPECT_LE(status.st_size, most);
  });
  expect_edges(path, 4, 2);
}

}  // namespace
}  // namespace halograd::edge_metrics_mpi_test
