// Neighbour averaging with codecs: differences with error feedback.
#include <gtest/gtest.h>

#include <functional>

#include "graph/spectral_gap.hpp"
#include "tests/averagers/replicas.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::compressed_mpi_test {
namespace {

AveragerConfig config_of(const std::string& codec, const std::string& order = "combine_then_adapt") {
  AveragerConfig config;
  config.codec = codec;
  config.order = order;
  return config;
}

std::unique_ptr<Averager> make(const AveragerConfig& config, std::size_t length, std::int64_t first_step = 0,
                               const std::string& kind = "ring", bool force_put = false) {
  return make_averager(
      {config, CommConfig{.force_put = force_put}, topology_of(kind), MPI_COMM_WORLD, length, first_step});
}

/// Exchanges alone.
void mix(Averager& averager, Values& weights, std::int64_t first, std::int64_t last) {
  const ExecutionSpace exec;
  const Buffer<float> gradient("gradient", weights.device().extent(0));
  for (std::int64_t step = first; step < last; ++step) {
    averager.before_gradient(exec, step, weights.device());
    averager.before_update(exec, step, weights.device(), gradient, 1);
    averager.after_update(exec, step, weights.device());
  }
}

/// What a rank's replica is after one exchange, worked out by hand in double: x + gamma sum W_ij (Q(x_j) - Q(x_i)).
std::vector<double> by_hand(std::size_t length, double gamma, const std::function<double(int, std::size_t)>& decoded) {
  const std::vector<float> start = start_of(this_rank(), length);
  std::vector<double> x(start.begin(), start.end());
  const Topology topology = topology_of("ring");
  for (const Neighbour& neighbour : topology.in_neighbours(this_rank())) {
    for (std::size_t i = 0; i < length; ++i) {
      x[i] += gamma * neighbour.weight * (decoded(neighbour.rank, i) - decoded(this_rank(), i));
    }
  }
  return x;
}

double largest_difference(const std::vector<double>& expected, const std::vector<float>& found) {
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) largest = larger_error(largest, expected[i] - found[i]);
  return largest;
}

TEST(Compressed, FirstExchangeByHand) {
  static constexpr std::size_t length = 300;
  const auto largest_of = [](const std::vector<float>& x, std::size_t block) {
    float largest = 0;
    for (std::size_t i = block * 256; i < std::min<std::size_t>(length, block * 256 + 256); ++i) {
      largest = std::max(largest, std::abs(x[i]));
    }
    return largest;
  };
  const auto int8 = [&](int rank, std::size_t i) {
    const std::vector<float> x = start_of(rank, length);
    const double scale = largest_of(x, i / 256) / 127.0F;
    return std::nearbyint(x[i] / static_cast<float>(scale)) * scale;
  };
  const auto largest_only = [&](int rank, std::size_t i) {
    const std::vector<float> x = start_of(rank, length);
    return std::abs(x[i]) == largest_of(x, i / 256) ? static_cast<double>(x[i]) : 0.0;
  };
  for (const bool force_put : {false, true}) {
    Values weights(start_of(this_rank(), length));
    mix(*make(config_of("int8"), length, 0, "ring", force_put), weights, 0, 1);
    EXPECT_LT(largest_difference(by_hand(length, 1, int8), weights.get()), 2e-7);
  }
  AveragerConfig config = config_of("top_k");
  config.kept_share = 1.0 / 256;
  config.consensus_step = 0.5;
  Values weights(start_of(this_rank(), length));
  mix(*make(config, length), weights, 0, 1);
  EXPECT_LT(largest_difference(by_hand(length, 0.5, largest_only), weights.get()), 2e-7);
}

/// Weights that every code can express are mixed as without one.
TEST(Compressed, LosesNothingWhereTheCodeIsExact) {
  constexpr std::size_t length = 256;
  std::vector<float> start(length);
  for (std::size_t i = 0; i < length; ++i) {
    start[i] = 0.5F * static_cast<float>(static_cast<int>((i * 37 + static_cast<std::size_t>(this_rank()) * 11) % 128));
  }
  start[7] = 63.5F;  // 127 steps of 0.5
  for (const char* codec : {"bf16", "int8", "top_k"}) {
    AveragerConfig config = config_of(codec);
    config.kept_share = 1;
    Values plain(start), coded(start);
    mix(*make(config_of("fp32"), length), plain, 0, 1);
    mix(*make(config, length), coded, 0, 1);
    const std::vector<float> expected = plain.get();
    EXPECT_LT(largest_difference({expected.begin(), expected.end()}, coded.get()), 1e-5) << codec;
  }
}

class CodecDecay : public testing::TestWithParam<std::string> {};

TEST_P(CodecDecay, ReplicasAgreeAndKeepTheirMean) {
  constexpr std::size_t length = 1500;
  AveragerConfig config = config_of(GetParam());
  config.kept_share = 0.125;
  const bool sparse = config.codec == "top_k";
  const double second = 1 - spectral_gap(topology_of("ring"));
  const int steps =
      sparse ? 300 : std::max(8, static_cast<int>(std::ceil(std::log(1e-3) / std::log(std::max(second, 1e-3)))));
  Values weights(start_of(this_rank(), length));
  const Consensus start = consensus_of(weights.get());
  const auto averager = make(config, length);
  mix(*averager, weights, 0, steps);
  const Consensus end = consensus_of(weights.get());
  EXPECT_NEAR(end.mean / length, start.mean / length, 2e-8 * steps);
  EXPECT_LT(end.error, (sparse ? 0.05 : 2e-3) * start.error + 1e-5) << steps << " steps";
  const auto bytes = static_cast<double>(averager->bytes_sent());
  EXPECT_DOUBLE_EQ(bytes, steps * bytes_per_step(config, topology_of("ring"), this_rank(), length));
  const auto degree = static_cast<double>(topology_of("ring").out_neighbours(this_rank()).size());
  const double a_halo = config.codec == "int8" ? 6 * 260 : (config.codec == "bf16" ? 6 * 512 : 6 * 5 * 32);
  EXPECT_DOUBLE_EQ(bytes, steps * degree * a_halo);
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecDecay, testing::Values("bf16", "int8", "top_k"),
                         [](const auto& instance) { return instance.param; });

TEST(Compressed, DescentEndsWhereItEndsWithoutACodec) {
  constexpr std::size_t length = 300;
  for (const char* codec : {"bf16", "int8"}) {
    for (const char* order : {"combine_then_adapt", "adapt_then_combine"}) {
      Values plain(start_of(this_rank(), length)), coded(start_of(this_rank(), length));
      train(*make(config_of("fp32", order), length), plain, 0, 40, 1);
      train(*make(config_of(codec, order), length), coded, 0, 40, 1);
      const std::vector<float> expected = plain.get();
      EXPECT_LT(largest_difference({expected.begin(), expected.end()}, coded.get()), 3e-3) << codec << order;
    }
  }
}

TEST(Compressed, GoesOnWithTheSameBitsFromWhatACheckpointKeeps) {
  constexpr std::size_t length = 700;
  for (const char* codec : {"int8", "top_k"}) {
    AveragerConfig config = config_of(codec);
    config.momentum = "averaged";
    const Descent one(length, 0.9F), two(length, 0.9F);
    const auto made = [&](const Descent& descent, std::int64_t first) {
      return make_averager({config,
                            CommConfig(),
                            topology_of("exponential"),
                            MPI_COMM_WORLD,
                            length,
                            first,
                            {descent.velocity.device()}});
    };
    Values straight(start_of(this_rank(), length)), stopped(start_of(this_rank(), length));
    train(*made(one, 0), straight, 0, 9, 1, one);
    auto averager = made(two, 0);
    train(*averager, stopped, 0, 4, 1, two);
    const Kept kept(*averager);
    EXPECT_EQ(kept.names(), std::vector<std::string>{"estimate"});
    averager.reset();
    averager = made(two, 4);
    kept.restore(*averager);
    train(*averager, stopped, 4, 9, 1, two);
    EXPECT_EQ(ranks_that_differ(straight.get(), stopped.get()), 0) << codec;
    EXPECT_EQ(ranks_that_differ(one.velocity.get(), two.velocity.get()), 0) << codec;
  }
}

}  // namespace
}  // namespace halograd::compressed_mpi_test
