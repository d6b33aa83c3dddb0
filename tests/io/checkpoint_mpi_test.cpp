#include "io/checkpoint.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "hdf5/objects.hpp"
#include "io/checkpoint_layout.hpp"
#include "tests/io/checkpoint_replica.hpp"

namespace halograd::checkpoint_mpi_test {
namespace {

using namespace test;

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
  EXPECT_EQ(read.input, header.input);
  EXPECT_EQ(read.optimizer_steps, 45);
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
  const Hdf5Session session;
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
    const Hdf5Session session;
    const Hdf5File file(H5Fcreate(folder.file("p.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const Hdf5Dataset dataset = create_dataset(file, "/rows", H5T_IEEE_F32LE, shape.extents(), "p.h5");
    write_box(dataset, H5T_NATIVE_FLOAT, {{1, 2, 0}, {1, 1, 40}}, written.data(), "/rows", "p.h5");
    read_part(dataset, shape, 1, 2, std::span(read), "p.h5", 13);
    EXPECT_TRUE(same_bits(read, written));
    read_part(dataset, shape, 1, 1, std::span(read), "p.h5", 13);
    EXPECT_TRUE(same_bits(read, std::vector<float>(40, 0.0F)));  // no other row was touched
  });
}

/// Filters of a dataset of a file.
int filters(const std::string& path, const std::string& name) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  return H5Pget_nfilters(Hdf5PropertyList(H5Dget_create_plist(open_hdf5_dataset(file, name, path))));
}

TEST(Checkpoint, CompressedReplicasComeBackBitwiseFromASmallerFile) {
  const Folder folder;
  const std::size_t count = 2 * checkpoint_chunk + 1000;
  const NamedTensor tensor{"a", "w", {static_cast<long>(count)}, 0};
  const auto write_one = [&](const std::string& name, bool compress) {
    Replica written(rank_of(), count), read(rank_of(), count);
    for (std::size_t i = 0; i < count / 2; ++i) written.first[i] = 0;  // of layers that are frozen, say
    std::mt19937 bits(1);                                              // what cannot be compressed
    for (float& value : written.second) value = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    write_checkpoint(MPI_COMM_WORLD, folder.file(name), example_header(), written.state(), {tensor}, statistic_tensors,
                     compress);
    read.clear();
    read_checkpoint(MPI_COMM_WORLD, folder.file(name), read.state());
    EXPECT_TRUE(same_bits(read.parameters, written.parameters));
    EXPECT_TRUE(same_bits(read.first, written.first));
    EXPECT_TRUE(same_bits(read.second, written.second));
    EXPECT_TRUE(same_bits(read.statistics, written.statistics));
    EXPECT_EQ(checkpoint_damage(MPI_COMM_WORLD, folder.file(name)), "");
  };
  write_one("plain.h5", false);
  write_one("compressed.h5", true);
  for (const char* name : {"/replica/parameters", "/replica/optimizer", "/replica/statistics"}) {
    EXPECT_EQ(filters(folder.file("plain.h5"), name), 0) << name;
    EXPECT_EQ(filters(folder.file("compressed.h5"), name), 2) << name;
  }
  const auto plain = std::filesystem::file_size(folder.file("plain.h5"));
  EXPECT_LT(std::filesystem::file_size(folder.file("compressed.h5")), 0.9 * static_cast<double>(plain));
}

TEST(Checkpoint, H5pyReadsItCompressed) {
  const Folder folder;
  Replica replica(rank_of());
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), replica.state(), parameter_tensors,
                   statistic_tensors, true);
  check_with_h5py("--checkpoint " + folder.file("c.h5"));
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

}  // namespace
}  // namespace halograd::checkpoint_mpi_test
