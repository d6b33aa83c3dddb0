// The buckets of the allreduce averager, which set out before the gradient is complete.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "averagers/averager.hpp"
#include "mpi/wait.hpp"
#include "tests/kernels/differences.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::allreduce_mpi_test {
namespace {

constexpr std::size_t length = 2'600'000;  // two buckets and what is left

constexpr std::size_t period = 10007;  // after which a gradient's values come again

float gradient_of(int rank, std::size_t i) {
  return static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729) % period) / period - 0.5F;
}

/// With each codec: its name, the bytes of a value, and the largest error of a sum's part, as a share of the largest
/// one.
struct Case {
  const char* codec;
  int bytes;
  double rounding;
};

class AllreduceBuckets : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static std::unique_ptr<Averager> make() {
    AveragerConfig config;
    config.name = "allreduce";
    config.codec = GetParam().codec;
    return make_averager({config, CommConfig(), make_topology(TopologyConfig(), all_ranks()), MPI_COMM_WORLD, length});
  }
  /// Each rank's part is at most 0.5 / ranks, and is rounded with what comes after it, and all once more at the end.
  [[nodiscard]] static double most_error() {
    return 1e-6 + (all_ranks() > 1 ? 0.5 * all_ranks() * GetParam().rounding : 0);
  }
};

/// What a backward pass and the averager make of the gradient; layers are completed at these places, from the end on.
std::vector<float> summed(Averager& averager, const std::vector<std::size_t>& places, bool leave_out = false) {
  const ExecutionSpace exec;
  std::vector<float> values(length, std::numeric_limits<float>::quiet_NaN());  // not computed yet
  const Buffer<float> gradient("gradient", length), weights("weights", length);
  const HostVector<float> host(values.data(), length);
  const double share = 1.0 / all_ranks();
  std::size_t end = length;
  for (const std::size_t begin : places) {
    for (std::size_t i = begin; i < end; ++i) values[i] = gradient_of(this_rank(), i);
    if (leave_out) values[begin] = std::numeric_limits<float>::quiet_NaN();
    end = begin;
    Kokkos::deep_copy(gradient, host);
    averager.gradient_ready(exec, gradient, begin, share);
    // Ranks come at other times in every run.
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::chrono::steady_clock::now().time_since_epoch().count() % 2000));
  }
  if (leave_out) Kokkos::deep_copy(gradient, 0.0F);
  averager.before_update(exec, 0, weights, gradient, leave_out ? 0 : share);
  exec.fence();
  Kokkos::deep_copy(host, gradient);
  return values;
}

const std::vector<std::size_t> places{2'400'000, 1'500'000, 1'499'000, 300'000, 0};

double largest_error(const std::vector<float>& sum, int left_out) {
  std::vector<double> expected(period, 0);
  for (int rank = 0; rank < all_ranks(); ++rank) {
    if (rank == left_out) continue;
    for (std::size_t i = 0; i < period; ++i) expected[i] += static_cast<double>(gradient_of(rank, i)) / all_ranks();
  }
  double error = 0;
  for (std::size_t i = 0; i < length; ++i) error = larger_error(error, sum[i] - expected[i % period]);
  return error;
}

void expect_same_on_all_ranks(const std::vector<float>& values) {
  std::vector<float> of_rank_0 = values;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(length), MPI_FLOAT, 0, MPI_COMM_WORLD);
  EXPECT_TRUE(values == of_rank_0) << "replicas would drift apart";
}

TEST_P(AllreduceBuckets, AddUpToTheSumOfAllGradients) {
  const auto averager = make();
  for (int step = 0; step < 2; ++step) {
    const std::vector<float> sum = summed(*averager, places);
    EXPECT_LT(largest_error(sum, -1), most_error());
    expect_same_on_all_ranks(sum);
  }
  EXPECT_EQ(averager->bytes_sent(),
            2 * (2 * (all_ranks() - 1) * static_cast<std::int64_t>(GetParam().bytes * length) / all_ranks()));
}

TEST_P(AllreduceBuckets, DoNotDependOnTiming) {
  const auto averager = make();
  const std::vector<float> first = summed(*averager, places);
  for (int run = 0; run < 3; ++run) EXPECT_TRUE(summed(*averager, places) == first);
}

TEST_P(AllreduceBuckets, OfAGradientThatIsLeftOutDoNotCount) {
  const auto averager = make();
  const int left_out = all_ranks() - 1;
  const std::vector<float> sum = summed(*averager, places, this_rank() == left_out);
  EXPECT_LT(largest_error(sum, left_out), most_error());
  expect_same_on_all_ranks(sum);
  EXPECT_LT(largest_error(summed(*averager, places), -1), most_error()) << "the step after it";
}

TEST_P(AllreduceBuckets, WithoutAnyGradientNobodyMakesAStep) {
  const auto averager = make();
  const Buffer<float> gradient("gradient", length), weights("weights", length);
  const auto values_updated = [&](double share) {
    std::size_t values = 0;
    averager->gradient_ready(ExecutionSpace(), gradient, 0, 1.0 / all_ranks());  // has left before it is found broken
    averager->update(ExecutionSpace(), 0, weights, gradient, share,
                     [&](std::size_t /*begin*/, std::size_t count) { values += count; });
    return values;
  };
  EXPECT_EQ(values_updated(0), 0U);
  EXPECT_EQ(values_updated(this_rank() == 0 ? 1.0 / all_ranks() : 0), length) << "one gradient is enough";
}

INSTANTIATE_TEST_SUITE_P(Codecs, AllreduceBuckets, testing::Values(Case{"fp32", 4, 0}, Case{"bf16", 2, 1.0 / 256}),
                         [](const auto& instance) { return std::string(instance.param.codec); });

}  // namespace
}  // namespace halograd::allreduce_mpi_test
