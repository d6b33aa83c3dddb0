#include <gtest/gtest.h>

#include <algorithm>

#include "io/checkpoint.hpp"
#include "tests/io/checkpoint_replica.hpp"

namespace halograd::checkpoint_other_ranks_mpi_test {
namespace {

using namespace test;

/// Written by all ranks, read by the lower half of them (at least one), each half as a job of its own.
class OtherRanks {
 public:
  OtherRanks() { MPI_Comm_split(MPI_COMM_WORLD, rank_of() < std::max(1, ranks_of() / 2) ? 0 : 1, 0, &comm_); }
  ~OtherRanks() { MPI_Comm_free(&comm_); }
  OtherRanks(const OtherRanks&) = delete;
  OtherRanks& operator=(const OtherRanks&) = delete;
  [[nodiscard]] MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

ReplicaState with_sums(Replica& replica, int rank) {
  ReplicaState state = replica.state();
  state.sums = {10.0 + rank, 100.0 + rank, 5.0, 1.0};
  return state;
}

TEST(CheckpointOnOtherRanks, EveryRankGetsTheMeanOfTheRows) {
  const Folder folder;
  const OtherRanks other;
  Replica replica(rank_of()), read(rank_of());
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), with_sums(replica, rank_of()),
                   parameter_tensors, statistic_tensors);
  read.clear();
  const EpochSums sums = read_checkpoint_as_mean(other.comm(), folder.file("c.h5"), read.state());
  const auto expect_mean = [&](std::vector<float> Replica::*buffer) {
    for (std::size_t i = 0; i < (read.*buffer).size(); ++i) {
      double sum = 0;
      for (int row = 0; row < ranks_of(); ++row) sum += (Replica(row).*buffer)[i];
      EXPECT_FLOAT_EQ((read.*buffer)[i], static_cast<float>(sum / ranks_of())) << "value " << i;
    }
  };
  expect_mean(&Replica::parameters);
  expect_mean(&Replica::first);
  expect_mean(&Replica::second);
  expect_mean(&Replica::statistics);
  const double rows = ranks_of(), readers = ranks_of(other.comm());
  EXPECT_NEAR(sums.images * readers, rows * 100 + rows * (rows - 1) / 2, 1e-9) << "every image counts once";
  EXPECT_NEAR(sums.loss * readers, rows * 10 + rows * (rows - 1) / 2, 1e-9);
  EXPECT_NEAR(sums.training_seconds, 5, 1e-12);
}

TEST(CheckpointOnOtherRanks, SumsOfTheEpochComeBack) {
  const Folder folder;
  Replica replica(rank_of());
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), with_sums(replica, rank_of()),
                   parameter_tensors, statistic_tensors);
  const EpochSums sums = read_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), replica.state());
  EXPECT_EQ(sums.loss, 10.0 + rank_of());
  EXPECT_EQ(sums.images, 100.0 + rank_of());
  CheckpointHeader between = example_header();
  between.step_in_epoch = 0;
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), between, with_sums(replica, rank_of()), parameter_tensors,
                   statistic_tensors);
  EXPECT_EQ(read_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), replica.state()).images, 0);
}

TEST(CheckpointDamage, IsFoundWhereverItIs) {
  const Folder folder;
  const OtherRanks other;
  Replica replica(rank_of());
  const std::string path = folder.file("c.h5");
  write_checkpoint(MPI_COMM_WORLD, path, example_header(), with_sums(replica, rank_of()), parameter_tensors,
                   statistic_tensors);
  EXPECT_EQ(checkpoint_damage(other.comm(), path), "");
  EXPECT_NE(error_of([&] { return checkpoint_damage(other.comm(), folder.file("none.h5")); }).find("No such file"),
            std::string::npos);
  const std::vector<char> whole = bytes_of(path);
  meet();
  // A bit anywhere in the values of the last rank's row.
  const std::vector<float>& row = Replica(ranks_of() - 1).second;
  const auto* pattern = reinterpret_cast<const char*>(row.data());
  const auto at = std::search(whole.begin(), whole.end(), pattern, pattern + row.size() * sizeof(float));
  ASSERT_NE(at, whole.end());
  std::vector<char> flipped = whole;
  flipped[static_cast<std::size_t>(at - whole.begin()) + 50] ^= 1;
  on_root([&] { put_bytes(path, flipped); });
  const std::string damage = checkpoint_damage(other.comm(), path);
  EXPECT_NE(damage.find("/replica/optimizer, row " + std::to_string(ranks_of() - 1)), std::string::npos) << damage;
  on_root([&] { put_bytes(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2)}); });
  EXPECT_NE(checkpoint_damage(other.comm(), path), "");
}

}  // namespace
}  // namespace halograd::checkpoint_other_ranks_mpi_test
