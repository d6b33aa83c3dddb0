#include "averagers/exchange_model.hpp"

#include <gtest/gtest.h>

#include "averagers/averager.hpp"
#include "kernels/error.hpp"

namespace halograd::exchange_model_test {
namespace {

constexpr std::size_t parameters = 25'000'000;  // 100 MB: 10 ms at 10 GB/s
constexpr double model_bytes = 100e6;
constexpr StepWork work{0.010};

/// 10 GB/s without latency, memory so fast that it costs nothing.
ModelledJob job_of(int ranks, int ranks_per_node = 1) {
  return {{0, 10e9, 1e30, ranks_per_node}, ranks, parameters};
}

TopologyConfig kind(const char* name) {
  TopologyConfig config;
  config.kind = name;
  return config;
}

AveragerConfig named(const char* name) {
  AveragerConfig averager;
  averager.name = name;
  return averager;
}

StepEstimate step_of(const AveragerConfig& averager, const char* topology, const ModelledJob& job,
                     const CodecSpeed& coding = {}) {
  return ExchangeModel(averager, kind(topology), job, coding).step(work, averager.every);
}

/// The bytes of the rows, which the start table and the metrics report as well.
TEST(ExchangeModel, SendsWhatTheRowsSay) {
  for (const char* name : {"neighbour", "push_sum", "allreduce"}) {
    for (const char* topology : {"ring", "exponential", "one_peer_exponential"}) {
      const AveragerConfig averager = named(name);
      const Topology graph = make_topology(kind(topology), 8);
      EXPECT_NEAR(step_of(averager, topology, job_of(8)).bytes, bytes_per_step(averager, graph, 0, parameters), 1)
          << name << " on " << topology;
    }
  }
  for (const char* name : {"fast", "easgd"}) {  // gradients over edges; weights in a sum over all ranks
    const Topology graph = make_topology(kind("torus2d"), 8);
    EXPECT_NEAR(step_of(named(name), "torus2d", job_of(8)).bytes, bytes_per_step(named(name), graph, 0, parameters), 1)
        << name;
  }
  for (const char* codec : {"bf16", "int8", "top_k"}) {
    AveragerConfig averager;
    averager.codec = codec;
    averager.every = 4;
    const Topology graph = make_topology(kind("torus2d"), 16);
    EXPECT_NEAR(step_of(averager, "torus2d", job_of(16)).bytes, bytes_per_step(averager, graph, 0, parameters), 1)
        << codec;
  }
  const Topology nodes = make_topology(kind("ring"), 4);
  EXPECT_NEAR(step_of(named("hierarchical"), "ring", job_of(16, 4)).bytes,
              bytes_per_step(named("hierarchical"), nodes, 0, parameters, 0, 4), 1);
}

TEST(ExchangeModel, AQuarterOfTheBytesTakesAQuarterOfTheTimeAndTheCoding) {
  AveragerConfig averager;
  averager.order = "adapt_then_combine";
  EXPECT_NEAR(step_of(averager, "ring", job_of(8)).step_seconds, 0.010 + 0.020, 1e-9);
  averager.codec = "int8";
  const CodecSpeed coding{4e-11, 2e-11};  // 1 ms to code, half a millisecond for each of two neighbours
  EXPECT_NEAR(step_of(averager, "ring", job_of(8), coding).step_seconds, 0.010 + 0.020 * 260 / 1024 + 0.002, 1e-6);
}

/// Which part of the computing an exchange lies behind.
TEST(ExchangeModel, OrderAndOverlapHideTheExchange) {
  AveragerConfig averager;
  EXPECT_NEAR(step_of(averager, "ring", job_of(8)).step_seconds, 0.020, 1e-9);
  averager = named("push_sum");
  EXPECT_NEAR(step_of(averager, "one_peer_exponential", job_of(8)).step_seconds, 0.020, 1e-9);
  averager.overlap = true;
  EXPECT_NEAR(step_of(averager, "one_peer_exponential", job_of(8)).step_seconds, 0.010, 1e-9);
  averager = named("allreduce");  // 17.5 ms, of which two thirds of the computing hide some
  EXPECT_NEAR(step_of(averager, "ring", job_of(8)).step_seconds, 0.010 + 0.0175 - 0.010 * 2 / 3, 1e-9);
}

TEST(ExchangeModel, WithoutBoundOnTheStalenessNobodyWaits) {
  AveragerConfig averager;
  averager.staleness = -1;
  const ExchangeModel model(averager, kind("ring"), job_of(8));
  StepWork uneven = work;
  uneven.uneven.slowest = 2;
  const StepEstimate step = model.step(uneven);
  EXPECT_NEAR(step.step_seconds, 8 / (7 / 0.010 + 1 / 0.020), 1e-9);
  EXPECT_EQ(step.period, 2);  // 20 ms of 10
}

/// Where the network allows an exchange in every second step, what has come is copied in every second one; the newest
/// weights are kept, and halos mixed, in each.
TEST(ExchangeModel, AtAFreePaceWeightsAreKeptAndMixedInEachStep) {
  ModelledJob job = job_of(8);
  job.machine.memory_bandwidth = 1e12;  // 0.1 ms a model
  AveragerConfig averager;
  averager.staleness = -1;
  EXPECT_NEAR(step_of(averager, "ring", job).step_seconds, 0.010 + (2 + 2 + 4 / 2.) * 1e-4, 1e-9);
  averager = named("push_sum");
  averager.staleness = -1;
  EXPECT_NEAR(step_of(averager, "ring", job).step_seconds, 0.010 + (5 + (4 + 2 + 2) / 2.) * 1e-4, 1e-9);
}

/// Less than a bucket of the gradient is complete only when all of it is.
TEST(ExchangeModel, ASmallGradientHidesBehindNothing) {
  ModelledJob small = job_of(8);
  small.parameters = 1'000'000;  // 4 MB: 0.7 ms
  EXPECT_NEAR(step_of(named("allreduce"), "ring", small).step_seconds, 0.010 + 0.0007, 1e-9);
  small.parameters = 2 << 20;  // two buckets
  EXPECT_NEAR(step_of(named("allreduce"), "ring", small).step_seconds, 0.010 + 1.75 * 4 * (1 << 20) / 10e9, 1e-9);
}

/// A tree has fewer messages that follow each other, but is MPI's and does not code.
TEST(ExchangeModel, ACodedAllreduceGoesByTheRing) {
  const ModelledJob far{{1e-3, 1e30, 1e30, 1}, 64, 1000};
  AveragerConfig averager = named("allreduce");
  EXPECT_NEAR(step_of(averager, "ring", far).step_seconds, 0.010 + 0.012, 1e-9);
  averager.codec = "bf16";
  EXPECT_NEAR(step_of(averager, "ring", far).step_seconds, 0.010 + 0.126, 1e-9);
}

/// A node sends as much as one rank would, whatever the number of its ranks.
TEST(ExchangeModel, HierarchicalSendsOneModelPerNodeAndNeighbour) {
  const StepEstimate step = step_of(named("hierarchical"), "ring", job_of(16, 4));
  EXPECT_NEAR(step.exchange_seconds, 0.020, 1e-6);
  EXPECT_NEAR(step.bytes, 2 * model_bytes / 4, 1);
  EXPECT_NEAR(step_of({}, "ring", job_of(16, 4)).exchange_seconds, 0.020, 1e-6);
  EXPECT_NEAR(step_of({}, "exponential", job_of(16, 4)).exchange_seconds, 0.110, 1e-6);  // 1 + 2 + 4 + 4 edges
}

TEST(ExchangeModel, MemoryOfANode) {
  const auto memory = [](const AveragerConfig& averager, const char* topology, int ranks_per_node) {
    return ExchangeModel(averager, kind(topology), job_of(8, ranks_per_node)).node_memory() / model_bytes;
  };
  EXPECT_NEAR(memory({}, "ring", 1), 4, 1e-9);      // two slots for each of two halos
  EXPECT_NEAR(memory({}, "ring", 4), 8 + 4, 1e-9);  // four ranks' own weights, and one halo at both ends
  EXPECT_NEAR(memory({}, "one_peer_exponential", 1), 2, 1e-9);
  AveragerConfig averager;
  averager.codec = "int8";
  EXPECT_NEAR(memory(averager, "ring", 1), 3 + 4 * 260.0 / 1024, 1e-4);  // its own estimate and two neighbours'
}

TEST(ExchangeModel, PushSumAtAFreePaceHoldsAMailboxPerNeighbour) {
  AveragerConfig averager = named("push_sum");
  averager.staleness = -1;
  const auto memory = [&](int ranks_per_node) {
    return ExchangeModel(averager, kind("ring"), job_of(8, ranks_per_node)).node_memory() / model_bytes;
  };
  EXPECT_NEAR(memory(1), 1 + 2 + 2, 1e-9);        // weights before the update, mailboxes, what is under way
  EXPECT_NEAR(memory(4), 4 * (1 + 2) + 2, 1e-9);  // of which only two messages leave the node
  const auto traffic = [&] {
    const ExchangeWork done = ExchangeModel(averager, kind("ring"), job_of(8)).work();
    return (done.memory_bytes + done.step_bytes) / model_bytes;
  };
  EXPECT_NEAR(traffic(), 2 * 2 + 2 + 7, 1e-9);
  averager.staleness = 0;
  EXPECT_NEAR(traffic(), 2 + 7, 1e-9);
}

TEST(ExchangeModel, OnlyWhatIsMixedBeforeTheUpdateSharesTheOptimizersPass) {
  AveragerConfig averager;
  const auto traffic = [&](int every) {
    return ExchangeModel(averager, kind("ring"), job_of(8)).work(every).memory_bytes / model_bytes;
  };
  EXPECT_NEAR(traffic(1), 2, 1e-9);
  EXPECT_NEAR(traffic(2), 2 + 2, 1e-9);
  EXPECT_NEAR(ExchangeModel(averager, kind("one_peer_exponential"), job_of(8)).work(1).memory_bytes / model_bytes, 1,
              1e-9);
  averager.order = "adapt_then_combine";
  EXPECT_NEAR(traffic(1), 2 + 2, 1e-9);
}

TEST(ExchangeModel, PairsAreNotModelled) {
  EXPECT_THROW(ExchangeModel(named("ad_psgd"), kind("ring"), job_of(8)), Error);
  EXPECT_THROW(ExchangeModel(named("gossip"), kind("ring"), job_of(8)), Error);
}

}  // namespace
}  // namespace halograd::exchange_model_test
