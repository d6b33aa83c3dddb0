#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/mpi/ranks.hpp"
#include "train/segmentation.hpp"

namespace halograd::segmentation_mpi_test {
namespace {

constexpr int extent = 64, row = 6, margin = 5;

/// In a plane: a bar along all of it, two that end inside, and short ones.
std::uint32_t truth(int h, int w) {
  if (w == 0) return 1;
  if (w == 1) return h < 23 ? 2 : h < 30 ? 0 : 3;
  if (w == 3) return static_cast<std::uint32_t>(4 + h / 16);
  return 0;
}

TEST(JoinSlabs, NumbersObjectsAlikeOnAllRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  const Slab slab = slab_of(extent, margin, comm.rank(), comm.ranks());
  // Each rank numbers what its slab holds in an order of its own.
  Objects objects;
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (int h = slab.end - 1; h >= slab.begin; --h) {
    for (int w = row - 1; w >= 0; --w) {
      if (truth(h, w) != 0 && numbers.emplace(truth(h, w), objects.count + 1).second) ++objects.count;
    }
  }
  for (int h = slab.begin; h < slab.end; ++h)
    for (int w = 0; w < row; ++w) objects.labels.push_back(truth(h, w) == 0 ? 0 : numbers[truth(h, w)]);
  EXPECT_EQ(join_slabs(comm, extent, margin, row, objects), 7U);
  std::vector<std::uint32_t> core;
  for (int h = slab.core_begin; h < slab.core_end; ++h)
    for (int w = 0; w < row; ++w) core.push_back(objects.labels[(h - slab.begin) * row + w]);
  const std::vector<std::uint32_t> all = comm.broadcast(comm.join_on_root(core));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(extent * row));
  std::map<std::uint32_t, std::set<std::uint32_t>> found;
  for (int h = 0; h < extent; ++h)
    for (int w = 0; w < row; ++w) found[truth(h, w)].insert(all[h * row + w]);
  std::set<std::uint32_t> seen;
  for (const auto& [object, labels] : found) {
    ASSERT_EQ(labels.size(), 1U) << object;
    EXPECT_EQ(*labels.begin() == 0, object == 0);
    seen.insert(*labels.begin());
  }
  EXPECT_EQ(seen, (std::set<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Two objects of one slab that are one to its neighbour stay two where they share less than half of it.
TEST(JoinSlabs, JoinsOnlyWhatCoversMostlyTheSame) {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.ranks() != 2) GTEST_SKIP() << "a case of two slabs";
  const Slab slab = slab_of(extent, margin, comm.rank(), 2);
  Objects objects;
  objects.count = comm.rank() == 0 ? 2 : 1;
  for (int h = slab.begin; h < slab.end; ++h)
    for (int w = 0; w < row; ++w) objects.labels.push_back(comm.rank() == 0 && w < row / 3 ? 2 : 1);
  EXPECT_EQ(join_slabs(comm, extent, margin, row, objects), 2U);
}

}  // namespace
}  // namespace halograd::segmentation_mpi_test
