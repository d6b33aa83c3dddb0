// What an averager keeps beside the replica, in a checkpoint.
#include <gtest/gtest.h>

#include "hdf5/objects.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/summary.hpp"
#include "tests/io/checkpoint_replica.hpp"

namespace halograd::averager_state_mpi_test {
namespace {

using namespace test;

struct State {
  std::vector<float> estimate;
  std::vector<double> weight;
  std::vector<std::int64_t> period;

  explicit State(int rank) {
    for (int i = 0; i < 37; ++i) estimate.push_back(static_cast<float>(std::sin(i + 50.0 * rank)));
    for (int i = 0; i < 3; ++i) weight.push_back(std::cos(i + 50.0 * rank));
    period = {(std::int64_t{1} << 60U) + rank, -rank};
  }
  std::vector<SavedState> spans() {
    return {{"estimate", std::span(estimate)}, {"weight", std::span(weight)}, {"period", std::span(period)}};
  }
};

void write(const std::string& path, State& state) {
  Replica replica(rank_of());
  ReplicaState with_state = replica.state();
  with_state.averager = state.spans();
  write_checkpoint(MPI_COMM_WORLD, path, example_header(), with_state, parameter_tensors, statistic_tensors);
}

TEST(AveragerState, ComesBackBitwiseOnEachRank) {
  const Folder folder;
  State written(rank_of()), read(99);
  write(folder.file("c.h5"), written);
  EXPECT_EQ(averager_state_difference(folder.file("c.h5"), state_layouts(read.spans())), "");
  read_averager_state(MPI_COMM_WORLD, folder.file("c.h5"), read.spans());
  EXPECT_TRUE(same_bits(read.estimate, written.estimate));
  EXPECT_EQ(read.weight, written.weight);
  EXPECT_EQ(read.period, written.period);
  EXPECT_EQ(checkpoint_damage(MPI_COMM_WORLD, folder.file("c.h5")), "");
  const std::vector<std::string> names{"estimate", "weight", "period"};
  EXPECT_EQ(summarize_checkpoint(folder.file("c.h5")).averager_state, names);
  check_with_h5py("--checkpoint " + folder.file("c.h5"));
}

TEST(AveragerState, DoesNotTouchTheReplica) {
  const Folder folder;
  State state(rank_of());
  write(folder.file("c.h5"), state);
  Replica read(0);
  read.clear();
  read_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), read.state());
  EXPECT_TRUE(same_bits(read.parameters, Replica(rank_of()).parameters));
  read.clear();
  read_checkpoint_as_mean(MPI_COMM_WORLD, folder.file("c.h5"), read.state());
  double sum = 0;
  for (int other = 0; other < ranks_of(); ++other) sum += Replica(other).parameters[5];
  EXPECT_EQ(read.parameters[5], static_cast<float>(sum / ranks_of()));
}

TEST(AveragerState, OfOtherNamesTypesOrCountsIsTold) {
  const Folder folder;
  State state(rank_of());
  write(folder.file("c.h5"), state);
  const auto difference = [&](const std::vector<SavedState>& spans) {
    return averager_state_difference(folder.file("c.h5"), state_layouts(spans));
  };
  EXPECT_EQ(difference({}), "the checkpoint holds estimate (37), weight (3), period (2), but this averager keeps none");
  std::vector<SavedState> other = state.spans();
  other[0].values = std::span(state.estimate).first(36);
  EXPECT_NE(difference(other).find("this averager keeps estimate (36), weight (3)"), std::string::npos);
  other = state.spans();
  other[1].values = std::span(state.period);
  EXPECT_NE(difference(other), "");
  Replica replica(rank_of());
  write(folder.file("without.h5"), replica);
  EXPECT_EQ(averager_state_difference(folder.file("without.h5"), {}), "");
  EXPECT_NE(averager_state_difference(folder.file("without.h5"), state_layouts(state.spans())), "");
}

TEST(AveragerState, DamageIsFound) {
  const Folder folder;
  State state(rank_of());
  write(folder.file("c.h5"), state);
  on_root([&] {
    haddr_t offset = 0;
    {
      const Hdf5Session session;
      const Hdf5File file = open_hdf5(folder.file("c.h5"), H5F_ACC_RDONLY);
      offset = H5Dget_offset(open_hdf5_dataset(file, "/replica/averager/period", "c.h5"));
    }
    std::vector<char> bytes = bytes_of(folder.file("c.h5"));
    bytes.at(offset) ^= 1;
    put_bytes(folder.file("c.h5"), bytes);
  });
  const std::string what = "/replica/averager/period, row 0: the checksum is wrong";
  EXPECT_NE(checkpoint_damage(MPI_COMM_WORLD, folder.file("c.h5")).find(what), std::string::npos);
  expect_error([&] { read_averager_state(MPI_COMM_WORLD, folder.file("c.h5"), state.spans()); }, {what});
}

TEST(AveragerState, ThatDiffersBetweenRanksIsRefused) {
  if (ranks_of() == 1) return;
  const Folder folder;
  Replica replica(rank_of());
  State state(rank_of());
  ReplicaState with_state = replica.state();
  with_state.averager = state.spans();
  if (rank_of() == 1) with_state.averager.pop_back();
  expect_error(
      [&] {
        write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), with_state, parameter_tensors,
                         statistic_tensors);
      },
      {"the ranks' averagers differ in what they keep"});
}

}  // namespace
}  // namespace halograd::averager_state_mpi_test
