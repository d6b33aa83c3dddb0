#include "io/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>

#include "io/checkpoint_layout.hpp"
#include "io/hdf5.hpp"
#include "tests/io/mpi_helpers.hpp"

namespace halograd {
namespace {

using namespace test;

HostVector<float> range(std::vector<float>& values) {
  return HostVector<float>(values.data(), values.size());
}

/// A replica whose bits differ in every value, rank and buffer, with the two networks' tensors: weight (2,3,1,4), bias
/// (4), a gap of 4 that belongs to no tensor, weight (5,2); statistics mean (4) and variance (4).
struct Replica {
  static constexpr std::size_t parameter_count = 42, statistic_count = 8;
  std::vector<float> parameters, first, second, statistics;

  explicit Replica(int rank, std::size_t count = parameter_count) {
    const auto value = [&](std::size_t i, int buffer) {
      return static_cast<float>(std::sin(1.0 + static_cast<double>(i) + 100.0 * rank + 7919.0 * buffer) * (1 + rank));
    };
    for (std::size_t i = 0; i < count; ++i) {
      const bool gap = i >= 28 && i < 32;
      parameters.push_back(gap ? 0.0F : value(i, 0));
      first.push_back(value(i, 1));
      second.push_back(value(i, 2));
    }
    for (std::size_t i = 0; i < statistic_count; ++i) statistics.push_back(value(i, 3));
  }
  ReplicaState state() { return {range(parameters), {range(first), range(second)}, range(statistics)}; }
  void clear() {
    for (auto* buffer : {&parameters, &first, &second, &statistics}) buffer->assign(buffer->size(), 0.0F);
  }
};

const std::vector<NamedTensor> parameter_tensors{
    {"conv1", "weight", {2, 3, 1, 4}, 0}, {"conv1", "bias", {4}, 24}, {"dense2", "weight", {5, 2}, 32}};
const std::vector<NamedTensor> statistic_tensors{{"norm", "running_mean", {4}, 0},
                                                 {"norm", "running_variance", {4}, 4}};

CheckpointHeader example_header() {
  return {120,           3, 17, ranks_of(), "lenet5", "neighbour combine_then_adapt", "ring", "name = \"Zürich\"\n",
          "halograd 0.1"};
}

void write(const std::string& path, Replica& replica) {
  write_checkpoint(MPI_COMM_WORLD, path, example_header(), replica.state(), parameter_tensors, statistic_tensors);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void put_bytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Flips one bit of the value at `position` (counted in values) of a contiguous dataset.
void flip_bit(const std::string& path, const char* dataset, std::size_t position) {
  haddr_t offset = 0;
  {
    const auto lock = hdf5_session();
    const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
    offset = H5Dget_offset(open_dataset(file, dataset, path));
  }
  std::vector<char> bytes = bytes_of(path);
  bytes.at(offset + position * sizeof(float)) ^= 1;
  put_bytes(path, bytes);
}

void change_attribute(const std::string& path, const char* name, std::int64_t value) {
  const auto lock = hdf5_session();
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDWR);
  H5Adelete(file, name);
  write_attribute(file, name, value, path);
}

TEST(Checkpoint, ReplicasComeBackBitwise) {
  const Folder folder;
  Replica written(rank_of()), read(rank_of());
  written.parameters[3] = -0.0F;
  written.parameters[4] = std::bit_cast<float>(0x7fc12345U);  // a NaN keeps its payload
  write(folder.file("checkpoint.h5"), written);
  read.clear();
  read_checkpoint(MPI_COMM_WORLD, folder.file("checkpoint.h5"), read.state());
  EXPECT_TRUE(same_bits(read.parameters, written.parameters));
  EXPECT_TRUE(same_bits(read.first, written.first));
  EXPECT_TRUE(same_bits(read.second, written.second));
  EXPECT_TRUE(same_bits(read.statistics, written.statistics));
  EXPECT_FALSE(std::filesystem::exists(folder.file("checkpoint.h5.partial")));
}

TEST(Checkpoint, HeaderComesBack) {
  const Folder folder;
  Replica replica(rank_of());
  CheckpointHeader header = example_header();
  for (int line = 0; line < 10000; ++line) header.config += "a_key_of_a_long_run_file = 1\n";  // beyond 64 KiB
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), header, replica.state(), parameter_tensors, statistic_tensors);
  const CheckpointHeader read = read_checkpoint_header(folder.file("c.h5"));
  EXPECT_EQ(read.step, 120);
  EXPECT_EQ(read.epoch, 3);
  EXPECT_EQ(read.step_in_epoch, 17);
  EXPECT_EQ(read.ranks, ranks_of());
  EXPECT_EQ(read.network, header.network);
  EXPECT_EQ(read.averager, header.averager);
  EXPECT_EQ(read.topology, header.topology);
  EXPECT_EQ(read.config, header.config);
  EXPECT_EQ(read.versions, header.versions);
}

TEST(Checkpoint, MeanIsThatOfTheReplicas) {
  const Folder folder;
  Replica replica(rank_of());
  write(folder.file("c.h5"), replica);
  std::vector<float> parameters(Replica::parameter_count, 7.0F), statistics(Replica::statistic_count, 7.0F);
  read_checkpoint_mean(folder.file("c.h5"), range(parameters), range(statistics));
  const auto expect_mean = [&](const std::vector<float>& mean, std::vector<float> Replica::*buffer) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      double sum = 0;
      for (int other = 0; other < ranks_of(); ++other) sum += (Replica(other).*buffer)[i];
      EXPECT_EQ(mean[i], static_cast<float>(sum / ranks_of())) << "value " << i;
    }
  };
  expect_mean(parameters, &Replica::parameters);
  expect_mean(statistics, &Replica::statistics);
}

TEST(Checkpoint, MeanTensorsHaveTheirExtentsAndOrder) {
  const Folder folder;
  Replica replica(rank_of());
  write(folder.file("c.h5"), replica);
  const auto lock = hdf5_session();
  const Hdf5File file = open_hdf5(folder.file("c.h5"), H5F_ACC_RDONLY);
  const std::vector<MeanTensor> tensors = read_mean_tensors(file, "c.h5");
  ASSERT_EQ(tensors.size(), 5U);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const NamedTensor& expected = i < 3 ? parameter_tensors[i] : statistic_tensors[i - 3];
    EXPECT_EQ(tensors[i].tensor.layer, expected.layer);
    EXPECT_EQ(tensors[i].tensor.name, expected.name);
    EXPECT_EQ(tensors[i].tensor.extents, expected.extents);
    EXPECT_EQ(tensors[i].tensor.offset, expected.offset);
    EXPECT_EQ(tensors[i].statistic, i >= 3);
  }
}

TEST(Checkpoint, OptimizerAndStatisticsMayBeAbsent) {
  const Folder folder;
  Replica written(rank_of()), read(rank_of());
  const ReplicaState state{range(written.parameters), {}, {}};
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), state, parameter_tensors, {});
  read.clear();
  read_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), {range(read.parameters), {}, {}});
  EXPECT_TRUE(same_bits(read.parameters, written.parameters));
  std::vector<float> mean(Replica::parameter_count);
  EXPECT_NO_THROW(read_checkpoint_mean(folder.file("c.h5"), range(mean), HostVector<float>()));
}

TEST(Checkpoint, RowsLongerThanAPieceComeBack) {
  const Folder folder;
  const ReplicaDataset shape{"/rows", 2, 3, 40, true};
  std::vector<float> written(40), read(40);
  for (std::size_t i = 0; i < 40; ++i) written[i] = static_cast<float>(i) + 0.5F;
  on_root([&] {
    const auto lock = hdf5_session();
    const Hdf5File file(H5Fcreate(folder.file("p.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const Hdf5Dataset dataset(
        H5Dcreate2(file, "/rows", H5T_IEEE_F32LE, make_space(shape.extents()), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    write_part(dataset, shape, 1, 2, range(written), H5P_DEFAULT, "p.h5", 7);
    read_part(dataset, shape, 1, 2, range(read), H5P_DEFAULT, "p.h5", 13);
    EXPECT_TRUE(same_bits(read, written));
    read_part(dataset, shape, 1, 1, range(read), H5P_DEFAULT, "p.h5", 13);
    EXPECT_TRUE(same_bits(read, std::vector<float>(40, 0.0F)));  // no other row was touched
  });
}

TEST(Checkpoint, H5pyReadsIt) {
  const Folder folder;
  Replica replica(rank_of());
  write(folder.file("c.h5"), replica);
  check_with_h5py("--checkpoint " + folder.file("c.h5"));
}

TEST(Checkpoint, ReplacesTheOneBefore) {
  const Folder folder;
  Replica before(rank_of()), after(rank_of() + 50), read(rank_of());
  write(folder.file("c.h5"), before);
  write(folder.file("c.h5"), after);
  read_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), read.state());
  EXPECT_TRUE(same_bits(read.parameters, after.parameters));
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
    const auto lock = hdf5_session();
    const Hdf5File foreign(H5Fcreate(folder.file("foreign.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const Hdf5File metrics(H5Fcreate(folder.file("metrics.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    write_attribute(metrics, "format", std::string("halograd metrics"), "metrics.h5");
  });
  refused("text.h5", {"text.h5", "not an HDF5 file"});
  refused("empty.h5", {"empty.h5", "not an HDF5 file"});
  refused("foreign.h5", {"foreign.h5", "no halograd checkpoint"});
  refused("metrics.h5", {"metrics.h5", "'halograd metrics'", "'halograd checkpoint'"});
  write(folder.file("newer.h5"), replica);
  on_root([&] { change_attribute(folder.file("newer.h5"), "format_version", 2); });
  refused("newer.h5", {"newer.h5", "format_version 2", "up to 1"});
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
      const auto lock = hdf5_session();
      const Hdf5File file = open_hdf5(path, H5F_ACC_RDWR);
      for (const char* name : {"/replica/parameters", "/replica/optimizer", "/replica/statistics"}) {
        auto extents = dataset_extents(open_dataset(file, name, path), name, path);
        extents[0] = 2;
        H5Ldelete(file, name, H5P_DEFAULT);
        Hdf5Dataset(H5Dcreate2(file, name, H5T_IEEE_F32LE, make_space(extents), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
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
}  // namespace halograd
