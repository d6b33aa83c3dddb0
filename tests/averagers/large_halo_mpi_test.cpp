// Halos, questions and gradients of more than 2^31 bytes arrive whole: two ranks, up to 14 GB of memory, so only in the
// test averagers.large.2 (label long), which sets HALOGRAD_TEST_LARGE.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "averagers/averager.hpp"
#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"
#include "support/memory.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/halo_window.hpp"
#include "window/pair_window.hpp"
#include "window/port_window.hpp"

namespace halograd::large_halo_mpi_test {
namespace {

constexpr std::size_t length = (std::size_t{1} << 29U) + 12345;
static_assert(length * sizeof(float) > std::size_t{1} << 31U);

/// Value of entry i on rank `rank`: below 2^23, so that sums of two are exact too, and different 2^28 or 2^29 entries
/// on.
float entry(std::size_t i, int rank) {
  const auto mixed = (static_cast<std::uint64_t>(i) * 2654435761U + (static_cast<std::uint64_t>(i) >> 26U) * 40503U);
  return static_cast<float>(((mixed >> 9U) + 77777U * static_cast<std::uint64_t>(rank)) & 0x7fffffU);
}

std::vector<float> entries(int rank) {
  std::vector<float> values(length);
  for (std::size_t i = 0; i < length; ++i) values[i] = entry(i, rank);
  return values;
}

std::size_t wrong(const float* values, int rank) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < length; ++i) count += values[i] != entry(i, rank) ? 1 : 0;
  return count;
}

HostVector<const float> view(const std::vector<float>& values) {
  return HostVector<const float>(values.data(), values.size());
}

class LargeHalo : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (std::getenv("HALOGRAD_TEST_LARGE") == nullptr || all_ranks() != 2) {
      GTEST_SKIP() << "needs two ranks and HALOGRAD_TEST_LARGE";
    }
    double ranks_with_memory = available_memory() > 16e9 ? 1 : 0;
    ranks_with_memory = Communicator(MPI_COMM_WORLD).sum(ranks_with_memory);
    if (ranks_with_memory < 2) GTEST_SKIP() << "needs 16 GB of memory";
  }
  void TearDown() override { Communicator(MPI_COMM_WORLD).barrier(); }
  const int other_ = 1 - this_rank();
};

TEST_P(LargeHalo, OfANeighbour) {
  HaloWindow::Options options;
  options.force_put = GetParam();
  HaloWindow window(MPI_COMM_WORLD, make_topology({}, 2), length, options);
  const std::vector<float> values = entries(this_rank());
  window.put(1, view(values));
  window.flush();
  EXPECT_EQ(wrong(window.wait(0, 1).data(), other_), 0);
  window.release(0, 1);
  EXPECT_EQ(window.bytes_sent(), static_cast<std::int64_t>(length * sizeof(float)));
}

TEST_P(LargeHalo, ThroughAPort) {
  TopologyConfig topology;
  topology.kind = "one_peer_exponential";
  TransportOptions options;
  options.force_put = GetParam();
  PortWindow window(MPI_COMM_WORLD, {topology, 2}, length, 0, options);
  const std::vector<float> values = entries(this_rank());
  window.put(0, view(values), 0.1);
  window.flush();
  const std::vector<PortWindow::Halo>& halos = window.wait(0);
  ASSERT_EQ(halos.size(), 1U);
  EXPECT_EQ(halos[0].number, 0.1);
  EXPECT_EQ(wrong(halos[0].values.data(), other_), 0);
  window.release(0);
}

TEST_P(LargeHalo, OfAPair) {
  TransportOptions options;
  options.force_put = GetParam();
  const Sides sides = two_sides({{1}, {0}});
  PairWindow window(MPI_COMM_WORLD, sides, length, options);
  const std::vector<float> values = entries(this_rank());
  PolitePause pause;
  if (sides.asks[static_cast<std::size_t>(this_rank())]) {
    window.ask(0, view(values), 0);
    std::optional<HostVector<const float>> answer;
    for (; !answer; pause()) answer = window.answer(0);
    EXPECT_EQ(wrong(answer->data(), other_), 0);
  } else {
    while (!window.asked()) pause();
    EXPECT_EQ(wrong(window.question(0).data(), other_), 0);
    window.reply(0, view(values), 0);
  }
}

TEST_P(LargeHalo, AsGradientsThatAreSummed) {
  AveragerConfig config;
  config.name = "allreduce";
  if (GetParam()) return;  // an all-reduce knows no puts
  const auto averager = make_averager({config, {}, make_topology({}, 2), MPI_COMM_WORLD, length});
  const ExecutionSpace exec;
  const Buffer<float> gradient("gradient", length), weights("weights", 1);
  const auto host = Kokkos::create_mirror_view(gradient);
  for (std::size_t i = 0; i < length; ++i) host(i) = entry(i, this_rank());
  Kokkos::deep_copy(gradient, host);
  averager->before_update(exec, 0, weights, gradient, 0.5);
  Kokkos::deep_copy(host, gradient);
  std::size_t count = 0;
  for (std::size_t i = 0; i < length; ++i) count += host(i) != 0.5F * entry(i, 0) + 0.5F * entry(i, 1) ? 1 : 0;
  EXPECT_EQ(count, 0);
}

INSTANTIATE_TEST_SUITE_P(Edges, LargeHalo, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "put" : "store"; });

}  // namespace
}  // namespace halograd::large_halo_mpi_test
