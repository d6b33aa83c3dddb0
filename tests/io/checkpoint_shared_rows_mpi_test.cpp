// Checkpoints whose rows are shared by consecutive ranks, each of which writes its stretch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"
#include "mpi/communicator.hpp"
#include "tests/io/checkpoint_replica.hpp"
#include "window/group_window.hpp"

namespace halograd::checkpoint_shared_rows_mpi_test {
namespace {

using namespace test;

/// This rank's part of the replica that its group of `sharers` ranks has.
class Part {
 public:
  Part(int sharers, std::size_t count)
      : sharers_(sharers), place_(rank_of() % sharers), row_(rank_of() / sharers), whole_(row_, count) {
    state_.assign(3 + static_cast<std::size_t>(place_), rank_of() + 0.25);
  }

  [[nodiscard]] Replica& whole() { return whole_; }
  [[nodiscard]] std::string name_of_state(int place) const { return "weights_" + std::to_string(place); }
  [[nodiscard]] ReplicaState state() {
    const GroupWindow::Shard own = shard(place_);
    const auto part = [&](std::vector<float>& values) { return slice(range(values), own.begin, own.length); };
    RowShare share{place_,
                   sharers_,
                   static_cast<std::int64_t>(whole_.parameters.size()),
                   static_cast<std::int64_t>(own.begin),
                   static_cast<std::int64_t>(shard(0).length),
                   {}};
    for (int place = 0; place < sharers_; ++place) {
      share.averager.push_back({name_of_state(place), NumberType::float64, 3 + place});
    }
    return {.parameters = part(whole_.parameters),
            .optimizer = {part(whole_.first), part(whole_.second)},
            .statistics = range(whole_.statistics),
            .sums = {row_ + 0.5, row_ + 10.0, 0, 0},
            .averager = {{name_of_state(place_), std::span(state_)}},
            .share = std::move(share)};
  }

 private:
  [[nodiscard]] GroupWindow::Shard shard(int place) const {
    return GroupWindow::shard(whole_.parameters.size(), place, sharers_);
  }

  int sharers_, place_, row_;
  Replica whole_;
  std::vector<double> state_;
};

/// Numbers of ranks that may share a row of this job.
std::vector<int> groups() {
  std::vector<int> found;
  for (int sharers = 2; sharers <= ranks_of(); ++sharers) {
    if (ranks_of() % sharers == 0) found.push_back(sharers);
  }
  return found;
}

/// Those of the example, and one that all stretches have a part of.
std::vector<NamedTensor> tensors_of(std::size_t count) {
  std::vector<NamedTensor> tensors = parameter_tensors;
  if (count > 42) tensors.push_back({"wide", "weight", {static_cast<long>(count) - 42}, 42});
  return tensors;
}

/// That a file is what the first ranks of the groups would have written with whole rows.
void expect_same_file(const std::string& path, int sharers, std::size_t count) {
  const Communicator world(MPI_COMM_WORLD);
  const int row = rank_of() / sharers, rows = ranks_of() / sharers;
  ASSERT_EQ(checkpoint_damage(world, path), "");
  EXPECT_EQ(read_checkpoint_header(path).ranks, rows);

  const OwnedComm same_place = world.split(rank_of() % sharers);
  Replica read(0, count);
  const Replica expected(row, count);
  read.clear();
  const EpochSums sums = read_checkpoint(same_place, path, read.state());
  EXPECT_TRUE(same_bits(read.parameters, expected.parameters) && same_bits(read.first, expected.first) &&
              same_bits(read.second, expected.second) && same_bits(read.statistics, expected.statistics));
  EXPECT_EQ(sums.loss, row + 0.5);

  std::vector<std::vector<double>> states;
  std::vector<SavedState> spans;
  for (int place = 0; place < sharers; ++place) states.emplace_back(3 + static_cast<std::size_t>(place));
  for (int place = 0; place < sharers; ++place) {
    spans.push_back({"weights_" + std::to_string(place), std::span(states[static_cast<std::size_t>(place)])});
  }
  EXPECT_EQ(averager_state_difference(path, state_layouts(spans)), "");
  read_averager_state(same_place, path, spans);
  for (int place = 0; place < sharers; ++place) {
    for (const double value : states[static_cast<std::size_t>(place)]) EXPECT_EQ(value, row * sharers + place + 0.25);
  }

  read_checkpoint_mean(path, range(read.parameters), range(read.statistics));
  std::vector<Replica> all;
  for (int each = 0; each < rows; ++each) all.emplace_back(each, count);
  const auto mean_of = [&](std::vector<float> Replica::*values, std::size_t i) {
    double sum = 0;
    for (const Replica& each : all) sum += (each.*values)[i];
    return static_cast<float>(sum / rows);
  };
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) different += read.parameters[i] != mean_of(&Replica::parameters, i) ? 1 : 0;
  EXPECT_EQ(different, 0U);
  for (std::size_t i = 0; i < read.statistics.size(); ++i) {
    EXPECT_EQ(read.statistics[i], mean_of(&Replica::statistics, i));
  }
}

TEST(CheckpointOfSharedRows, IsThatOfWholeRows) {
  const Folder folder;
  for (const int sharers : groups()) {
    std::vector<std::size_t> counts{Replica::parameter_count};
    if (sharers == 2 && ranks_of() <= 4) counts.push_back(2 * GroupWindow::cut + 5);  // stretches of two chunks
    for (const std::size_t count : counts) {
      for (const bool compress : {false, true}) {
        Part part(sharers, count);
        const std::string path = folder.file("c.h5");
        write_checkpoint(MPI_COMM_WORLD, path, example_header(), part.state(), tensors_of(count), statistic_tensors,
                         compress);
        expect_same_file(path, sharers, count);
        meet();
      }
    }
  }
}

TEST(CheckpointOfSharedRows, H5pyReadsIt) {
  const Folder folder;
  if (ranks_of() % 2 != 0) GTEST_SKIP() << "pairs of ranks share rows";
  Part part(2, Replica::parameter_count);
  ReplicaState state = part.state();
  state.averager.clear();
  state.share->averager.clear();
  write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), state, parameter_tensors, statistic_tensors);
  check_with_h5py("--checkpoint " + folder.file("c.h5"), ranks_of() / 2);
}

// A value that no rank writes would be whatever the disk had there.
TEST(CheckpointOfSharedRows, IsRefusedWhereRanksLeaveAGap) {
  const Folder folder;
  if (ranks_of() % 2 != 0) GTEST_SKIP() << "pairs of ranks share rows";
  Part part(2, Replica::parameter_count);
  ReplicaState state = part.state();
  const auto write_state = [&] {
    write_checkpoint(MPI_COMM_WORLD, folder.file("c.h5"), example_header(), state, parameter_tensors,
                     statistic_tensors);
  };
  if (rank_of() == 1) {
    for (HostVector<float>* values : {&state.parameters, &state.optimizer[0], &state.optimizer[1]}) {
      *values = slice(*values, 0, values->size() - 1);
    }
  }
  expect_error(write_state, {"c.h5.partial: /replica/parameters: the ranks have", "bytes to write, expected"});
  on_root([&] {
    EXPECT_FALSE(std::filesystem::exists(folder.file("c.h5")) || std::filesystem::exists(folder.file("c.h5.partial")));
  });
  state = part.state();
  if (rank_of() == 0) state.share->place = 1;
  expect_error(write_state, {"2 ranks that share a row are not consecutive ones"});
}

}  // namespace
}  // namespace halograd::checkpoint_shared_rows_mpi_test
