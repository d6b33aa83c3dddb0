#include "io/local_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "io/checkpoint_store.hpp"
#include "tests/io/checkpoint_replica.hpp"

namespace halograd::local_copies_mpi_test {
namespace {

using namespace test;
namespace fs = std::filesystem;

/// A run folder, and a folder for each node that stands for its disk.
class LocalCopies : public ::testing::Test {
 protected:
  LocalCopies() {
    on_root([this] { fs::create_directories(run.path); });
    copies = make_local_folder(world, disk(), run);
  }

  [[nodiscard]] std::string disk() const {
    return folder.file("node" + std::to_string(world.node_of_rank()[static_cast<std::size_t>(world.rank())]));
  }
  /// The rank's state at a step, which differs from all others.
  static Replica replica(std::int64_t step, int rank) { return Replica(rank + 100 * static_cast<int>(step)); }
  static CheckpointHeader header(std::int64_t step) {
    CheckpointHeader header = example_header();
    header.step = step;
    return header;
  }
  void write(std::int64_t step, const Communicator& comm) const {
    Replica own = replica(step, comm.rank());
    ReplicaState state = own.state();
    state.sums = {10.0 + comm.rank(), 100.0 + comm.rank(), 5.0, 1.0};
    write_local_copies(comm, copies, header(step), state);
  }
  void write(std::int64_t step) const { write(step, world); }
  [[nodiscard]] std::string restore(std::int64_t after, const Communicator& comm, bool compress = false) const {
    return restore_local_copies(comm, copies, after, run, parameter_tensors, statistic_tensors, compress);
  }
  /// Names in this node's folder.
  [[nodiscard]] std::vector<std::string> names_of_copies() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(copies)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  /// The same, once all ranks have written theirs.
  [[nodiscard]] std::vector<std::string> names() const {
    meet();
    std::vector<std::string> found = names_of_copies();
    meet();
    return found;
  }
  [[nodiscard]] std::string copy(std::int64_t step, int rank) const {
    return copies + "/step_" + std::to_string(step) + "_rank_" + std::to_string(rank) + "_of_" +
           std::to_string(world.ranks()) + ".h5";
  }
  static void damage(const std::string& path) {
    std::vector<char> bytes = bytes_of(path);
    ASSERT_FALSE(bytes.empty());
    const Replica lost = replica(20, 0);
    const auto* values = reinterpret_cast<const char*>(lost.parameters.data());
    const auto at = std::search(bytes.begin(), bytes.end(), values, values + 16);
    ASSERT_NE(at, bytes.end());
    *at = static_cast<char>(*at ^ 1);
    put_bytes(path, bytes);
  }
  /// That the checkpoint of `step` is made, by all ranks, and has the rows of all.
  void expect_restored(std::int64_t step) const {
    const std::string path = restore(0, world);
    ASSERT_EQ(path, run.checkpoint(step));
    expect_rows(path, step);
  }
  void expect_rows(const std::string& path, std::int64_t step) const {
    Replica read(0), expected = replica(step, world.rank());
    read.clear();
    const EpochSums sums = read_checkpoint(world, path, read.state());
    EXPECT_TRUE(same_bits(read.parameters, expected.parameters) && same_bits(read.first, expected.first) &&
                same_bits(read.second, expected.second) && same_bits(read.statistics, expected.statistics));
    EXPECT_EQ(sums.images, 100.0 + world.rank());
  }

  const Communicator world{MPI_COMM_WORLD};
  const Folder folder;
  const RunFolder run{folder.file("run")};
  std::string copies;
};

TEST_F(LocalCopies, MakeTheCheckpointThatAllRanksWouldHaveWritten) {
  write(20);
  for (const bool compress : {false, true}) {
    const std::string path = restore(10, world, compress);
    EXPECT_EQ(path, run.checkpoint(20));
    Replica own = replica(20, world.rank());
    ReplicaState state = own.state();
    state.sums = {10.0 + world.rank(), 100.0 + world.rank(), 5.0, 1.0};
    write_checkpoint(world, folder.file("direct.h5"), header(20), state, parameter_tensors, statistic_tensors,
                     compress);
    expect_rows(path, 20);
    Replica made(0), direct(0);
    read_checkpoint_mean(path, range(made.parameters), range(made.statistics));
    read_checkpoint_mean(folder.file("direct.h5"), range(direct.parameters), range(direct.statistics));
    EXPECT_TRUE(same_bits(made.parameters, direct.parameters) && same_bits(made.statistics, direct.statistics));
    const CheckpointHeader one = read_checkpoint_header(path), other = read_checkpoint_header(folder.file("direct.h5"));
    EXPECT_EQ(std::tie(one.step, one.epoch, one.step_in_epoch, one.ranks, one.config, one.averager),
              std::tie(other.step, other.epoch, other.step_in_epoch, other.ranks, other.config, other.averager));
    meet();
  }
}

TEST_F(LocalCopies, AreNotTakenWhereTheCheckpointIsAsNew) {
  EXPECT_EQ(restore(-1, world), "") << "nothing was written";
  write(20);
  EXPECT_EQ(restore(20, world), "");
}

TEST_F(LocalCopies, OfTheNewestTwoStepsAreKept) {
  for (const std::int64_t step : {10, 20, 30}) write(step);
  for (const std::string& name : names()) {
    EXPECT_TRUE(name.rfind("step_20_", 0) == 0 || name.rfind("step_30_", 0) == 0) << name;
  }
  const auto files = static_cast<int>(names().size());
  const int of_a_rank = world.nodes() > 1 ? 4 : 2;  // two steps, on two nodes
  const int counted = world.node_rank() == 0 ? files : 0;
  EXPECT_EQ(world.sum(counted), of_a_rank * world.ranks());
  write(15);  // of a run that went back
  for (const std::string& name : names()) EXPECT_EQ(name.rfind("step_15_", 0), 0) << name;
}

TEST_F(LocalCopies, OutlastANode) {
  if (world.nodes() == 1) GTEST_SKIP() << "there is one node";
  write(20);
  on_root([this] { fs::remove_all(copies); });
  expect_restored(20);
}

TEST_F(LocalCopies, OfAStepThatIsNotWholeAreLeftOut) {
  write(10);
  write(20);
  meet();
  fs::remove(copy(20, world.ranks() - 1));
  expect_restored(10);
}

TEST_F(LocalCopies, ThatAreDamagedAreLeftOut) {
  write(10);
  write(20);
  on_root([this] { damage(copy(20, 0)); });
  expect_restored(world.nodes() > 1 ? 20 : 10);  // on several nodes there is another copy
}

TEST_F(LocalCopies, AreRestoredByFewerRanksAndByMore) {
  const bool first_half = world.rank() < std::max(1, world.ranks() / 2);
  const OwnedComm half = world.split(first_half ? 0 : 1);
  write(20);
  if (first_half) {
    EXPECT_EQ(restore(10, half), run.checkpoint(20));
  }
  meet();
  expect_rows(run.checkpoint(20), 20);
  Replica mean(0), expected(0);
  expected.clear();
  read_checkpoint_mean(run.checkpoint(20), range(mean.parameters), range(mean.statistics));
  for (std::size_t i = 0; i < mean.parameters.size(); ++i) {
    double sum = 0;
    for (int rank = 0; rank < world.ranks(); ++rank) sum += replica(20, rank).parameters[i];
    EXPECT_NEAR(mean.parameters[i], sum / world.ranks(), 1e-5 * std::abs(sum) + 1e-2);
  }
  if (first_half) write(30, half);
  meet();
  EXPECT_EQ(restore(20, world), run.checkpoint(30));
  EXPECT_EQ(read_checkpoint_header(run.checkpoint(30)).ranks, world.broadcast(half.ranks()));
  EXPECT_EQ(checkpoint_damage(world, run.checkpoint(30)), "");
}

// Pairs of ranks share a row: each keeps its own part, and one rank writes the row that they come to.
TEST_F(LocalCopies, OfRanksThatShareARowBecomeOne) {
  if (world.ranks() % 2 != 0) GTEST_SKIP() << "pairs of ranks share rows";
  const int place = world.rank() % 2, row = world.rank() / 2;
  Replica own = replica(20, row);
  std::vector<double> weight{1.5 + world.rank()};
  constexpr std::size_t half = Replica::parameter_count / 2;
  const auto part = [&](std::vector<float>& values) {
    return slice(range(values), half * static_cast<std::size_t>(place), half);
  };
  const std::vector<StateLayout> states{{"weight", NumberType::float64, 1}, {"other_weight", NumberType::float64, 1}};
  const ReplicaState state{
      .parameters = part(own.parameters),
      .optimizer = {part(own.first), part(own.second)},
      .statistics = range(own.statistics),
      .sums = {1, 2, 3, 4},
      .averager = {{states[static_cast<std::size_t>(place)].name, std::span(weight)}},
      .share = RowShare{place, 2, 2 * half, static_cast<std::int64_t>(half) * place, half, states}};
  write_local_copies(world, copies, header(20), state);
  EXPECT_TRUE(fs::exists(copies + "/step_20_rank_" + std::to_string(world.rank()) + "_of_" +
                         std::to_string(world.ranks()) + "_in_groups_of_2.h5"));
  const std::string path = restore(0, world);
  ASSERT_EQ(path, run.checkpoint(20));
  ASSERT_EQ(checkpoint_damage(world, path), "");

  const OwnedComm same_place = world.split(place);
  Replica read(0);
  EXPECT_EQ(read_checkpoint(same_place, path, read.state()).images, 2);
  EXPECT_TRUE(same_bits(read.parameters, own.parameters) && same_bits(read.first, own.first) &&
              same_bits(read.second, own.second) && same_bits(read.statistics, own.statistics));
  EXPECT_EQ(averager_state_difference(path, states), "");
  std::vector<double> weights(2);
  read_averager_state(same_place, path,
                      {{"weight", std::span(weights).first(1)}, {"other_weight", std::span(weights).last(1)}});
  EXPECT_EQ(weights, (std::vector<double>{1.5 + 2 * row, 2.5 + 2 * row}));
}

TEST_F(LocalCopies, BelongToTheRunThatMadeThem) {
  write(20);
  const std::string again = make_local_folder(world, disk(), run);
  EXPECT_NE(again, copies);
  EXPECT_FALSE(fs::exists(copies));
  EXPECT_EQ(local_folder(world, disk(), run), again);
  meet();
  discard_local_copies(world, again, run);
  meet();
  EXPECT_FALSE(fs::exists(again));
  EXPECT_EQ(local_folder(world, disk(), run), "");
}

TEST_F(LocalCopies, ThatCannotBeWrittenFailOnAllRanks) {
  write(10);
  on_root([this] {
    fs::remove_all(copies);
    put_bytes(copies, {'x'});
  });
  const bool sound = world.node_rank() == 0 && world.rank() != 0;  // the disk of another node than rank 0's
  const std::vector<std::string> before = sound ? names_of_copies() : std::vector<std::string>();
  expect_error([this] { write(20); }, {"output.local_folder: ", "halograd-", "cannot be made"});
  if (sound) {
    EXPECT_EQ(names_of_copies(), before);
  }
  expect_error([this] { (void)local_folder(world, "$HALOGRAD_NO_SUCH_NAME/x", run); },
               {"output.local_folder is \"$HALOGRAD_NO_SUCH_NAME/x\"", "HALOGRAD_NO_SUCH_NAME is not set"});
}

}  // namespace
}  // namespace halograd::local_copies_mpi_test
