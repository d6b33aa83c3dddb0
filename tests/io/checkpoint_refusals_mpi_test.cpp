// What a checkpoint refuses to be read from or written to.

#include "io/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "hdf5/objects.hpp"
#include "io/checkpoint_layout.hpp"
#include "tests/io/checkpoint_replica.hpp"

namespace halograd::checkpoint_refusals_mpi_test {
namespace {

using namespace test;

/// Flips one bit of the value at `position` (counted in values) of a contiguous dataset.
void flip_bit(const std::string& path, const char* dataset, std::size_t position) {
  haddr_t offset = 0;
  {
    const Hdf5Session session;
    const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
    offset = H5Dget_offset(open_hdf5_dataset(file, dataset, path));
  }
  std::vector<char> bytes = bytes_of(path);
  bytes.at(offset + position * sizeof(float)) ^= 1;
  put_bytes(path, bytes);
}

void change_attribute(const std::string& path, const char* name, std::int64_t value) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDWR);
  H5Adelete(file, name);
  write_attribute(file, name, value, path);
}

TEST(Checkpoint, RefusesWhatIsNoCheckpoint) {
  const Folder folder;
  Replica replica(rank_of());
  const auto refused = [&](const std::string& name, const std::vector<std::string>& texts) {
    expect_error([&] { read_checkpoint(MPI_COMM_WORLD, folder.file(name), replica.state()); }, texts);
    expect_error([&] { read_checkpoint_header(folder.file(name)); }, texts);
    std::vector<float> statistics(Replica::statistic_count);
    expect_error([&] { read_checkpoint_mean(folder.file(name), range(replica.parameters), range(statistics)); }, texts);
  };
  refused("missing.h5", {"missing.h5", "No such file"});
  on_root([&] {
    put_bytes(folder.file("text.h5"), std::vector<char>(100, 'x'));
    put_bytes(folder.file("empty.h5"), {});
    const Hdf5Session session;
    const Hdf5File foreign(H5Fcreate(folder.file("foreign.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const Hdf5File metrics(H5Fcreate(folder.file("metrics.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    write_attribute(metrics, "format", std::string("halograd metrics"), "metrics.h5");
  });
  refused("text.h5", {"text.h5", "not an HDF5 file"});
  refused("empty.h5", {"empty.h5", "not an HDF5 file"});
  refused("foreign.h5", {"foreign.h5", "not a halograd checkpoint"});
  refused("metrics.h5", {"metrics.h5", "'halograd metrics'", "'halograd checkpoint'"});
  write(folder.file("newer.h5"), replica);
  on_root([&] { change_attribute(folder.file("newer.h5"), "format_version", 3); });
  refused("newer.h5", {"newer.h5", "format_version 3", "up to 2"});
}

TEST(Checkpoint, RefusesAFileThatIsCutShort) {
  const Folder folder;
  Replica replica(rank_of());
  write(folder.file("c.h5"), replica);
  std::vector<char> bytes = bytes_of(folder.file("c.h5"));
  for (const double share : {0.0001, 0.01, 0.3, 0.7, 0.99}) {
    const auto length = static_cast<std::size_t>(share * static_cast<double>(bytes.size()));
    on_root([&] { put_bytes(folder.file("cut.h5"), {bytes.begin(), bytes.begin() + static_cast<long>(length)}); });
    expect_error([&] { read_checkpoint(MPI_COMM_WORLD, folder.file("cut.h5"), replica.state()); }, {"cut.h5"});
    expect_error([&] { read_checkpoint_header(folder.file("cut.h5")); }, {"cut.h5"});
  }
  on_root([&] { put_bytes(folder.file("cut.h5"), {bytes.begin(), bytes.end() - 1}); });
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, folder.file("cut.h5"), replica.state()); },
               {"cut.h5", "truncated"});
}

TEST(Checkpoint, RefusesDamagedValues) {
  const Folder folder;
  Replica replica(rank_of());
  write(folder.file("whole.h5"), replica);
  const std::string path = folder.file("c.h5");
  const int last = ranks_of() - 1;
  const auto damage = [&](const char* dataset, std::size_t position) {
    on_root([&] {
      put_bytes(path, bytes_of(folder.file("whole.h5")));
      flip_bit(path, dataset, position);
    });
  };
  const std::string row = "row " + std::to_string(last);
  damage("/replica/parameters", last * Replica::parameter_count + 40);
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, replica.state()); },
               {"/replica/parameters", row, "checksum"});
  damage("/replica/optimizer", last * 2 * Replica::parameter_count + Replica::parameter_count);
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, replica.state()); },
               {"/replica/optimizer", row, "checksum"});
  damage("/replica/statistics", last * Replica::statistic_count);
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, replica.state()); },
               {"/replica/statistics", row, "checksum"});
  damage("/mean/dense2/weight", 3);
  std::vector<float> parameters(Replica::parameter_count), statistics(Replica::statistic_count);
  expect_error([&] { read_checkpoint_mean(path, range(parameters), range(statistics)); },
               {path, "/mean/dense2/weight", "checksum"});
}

TEST(Checkpoint, RefusesAnotherNetworkOrOptimizer) {
  const Folder folder;
  Replica replica(rank_of()), longer(rank_of(), 50);
  const std::string path = folder.file("c.h5");
  write(path, replica);
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, longer.state()); }, {path, "'lenet5'", "42", "50"});
  expect_error([&] { read_checkpoint_mean(path, range(longer.parameters), range(longer.statistics)); },
               {path, "'lenet5'", "42", "50"});
  const ReplicaState one_buffer{range(replica.parameters), {range(replica.first)}, range(replica.statistics)};
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, one_buffer); }, {path, "2 optimizer buffers", "has 1"});
  const ReplicaState no_statistics{range(replica.parameters), {range(replica.first), range(replica.second)}, {}};
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, no_statistics); }, {path, "8 statistics"});
}

TEST(Checkpoint, RefusesAnotherNumberOfRanks) {
  const Folder folder;
  Replica replica(rank_of());
  // a file of one rank is read by all, or, where there is but one, a file that says it is of two
  const std::string path = folder.file("c.h5");
  if (rank_of() == 0) {
    write_checkpoint(MPI_COMM_SELF, path, example_header(), replica.state(), parameter_tensors, statistic_tensors);
  }
  meet();
  if (ranks_of() == 1) {
    on_root([&] {
      const Hdf5Session session;
      const Hdf5File file = open_hdf5(path, H5F_ACC_RDWR);
      for (const char* name : {"/replica/parameters", "/replica/optimizer", "/replica/statistics"}) {
        auto extents = dataset_extents(open_hdf5_dataset(file, name, path), name, path);
        extents[0] = 2;
        H5Ldelete(file, name, H5P_DEFAULT);
        write_attribute(create_dataset(file, name, H5T_IEEE_F32LE, extents, path), "crc32",
                        std::vector<std::uint32_t>(2), path);
      }
    });
  }
  expect_error([&] { read_checkpoint(MPI_COMM_WORLD, path, replica.state()); },
               {path, "checkpoint of " + std::to_string(ranks_of() == 1 ? 2 : 1) + " ranks",
                "are " + std::to_string(ranks_of()) + " now"});
}

TEST(Checkpoint, RefusesReplicasOfDifferentLengths) {
  if (ranks_of() == 1) GTEST_SKIP() << "needs two ranks";
  const Folder folder;
  Replica replica(rank_of(), rank_of() == 1 ? 50 : 42);
  expect_error([&] { write(folder.file("c.h5"), replica); }, {"differ in length", "42 to 50"});
}

TEST(Checkpoint, AFailedWriteLeavesTheOldFile) {
  const Folder folder;
  const std::string path = folder.file("c.h5");
  Replica before(rank_of()), read(rank_of());
  std::vector<float> large(std::size_t{1} << 18, 1.0F);
  const ReplicaState larger{range(large), {}, {}};
  write(path, before);
  const auto still_there = [&] {
    read.clear();
    read_checkpoint(MPI_COMM_WORLD, path, read.state());
    EXPECT_TRUE(same_bits(read.parameters, before.parameters));
  };

  // a file system without room for the second checkpoint
  ::rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  ::rlimit small = limit;
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  small.rlim_cur = large.size() * sizeof(float) * static_cast<std::size_t>(ranks_of()) / 2;
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error([&] { write_checkpoint(MPI_COMM_WORLD, path, example_header(), larger, {}, {}); },
               {path + ".partial", "too large"});
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, previous);
  meet();
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  still_there();

  on_root([&] { std::filesystem::create_directory(path + ".partial"); });
  expect_error([&] { write_checkpoint(MPI_COMM_WORLD, path, example_header(), larger, {}, {}); },
               {path + ".partial", "Is a directory"});
  still_there();

  // a tensor that lies outside its buffer is found when half the file is written
  on_root([&] { std::filesystem::remove(path + ".partial"); });
  expect_error(
      [&] {
        write_checkpoint(MPI_COMM_WORLD, path, example_header(), larger, {{"a", "w", {9}, large.size()}}, {});
      },
      {"/mean/a/w", "outside"});
  meet();
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  still_there();
}

TEST(Checkpoint, RefusesAPathThatCannotBeWritten) {
  const Folder folder;
  Replica replica(rank_of());
  on_root([&] { put_bytes(folder.file("file"), {'x'}); });
  expect_error([&] { write(folder.file("file/c.h5"), replica); }, {folder.file("file/c.h5"), "Not a directory"});
  expect_error([&] { write(folder.file("missing/c.h5"), replica); }, {folder.file("missing/c.h5"), "No such file"});
}

}  // namespace
}  // namespace halograd::checkpoint_refusals_mpi_test
