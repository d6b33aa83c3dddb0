// Steps that a device replays, and batches that come ahead, change nothing. On cores neither is done.

#include <gtest/gtest.h>

#include "kernels/compat.hpp"
#include "nn/network.hpp"
#include "nn/reference_networks.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::step_recording_test {
namespace {

constexpr int batch = 4;
const Shape input{28, 28, 1};

NetworkConfig lenet5() {
  NetworkConfig config;
  config.name = "lenet5";
  return expand_network(config, 10);
}

/// Losses of steps on batches of `sizes` images, each announced in the step before where `replayed`; then the weights.
std::vector<double> train(bool replayed, const std::vector<int>& sizes) {
  Network network(lenet5(), input, 10, batch);
  network.replay_steps(replayed);
  const Replica replica = network.make_replica(1);
  const ExecutionSpace exec;
  std::vector<std::vector<float>> images;
  for (std::size_t i = 0; i < sizes.size(); ++i) images.push_back(noise<float>(input.values() * batch, i + 1));
  const std::vector<std::int32_t> labels{3, 1, 4, 1};
  const auto of_step = [&](std::size_t i) {
    return i < sizes.size() ? HostBatch{sizes[i], images[i].data(), labels.data()} : HostBatch();
  };
  std::vector<double> found;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    found.push_back(network.train(exec, replica, of_step(i), 0, {}, replayed ? of_step(i + 1) : HostBatch()).loss);
    const Buffer<float>& weights = replica.parameters;
    Kokkos::parallel_for(
        "step", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, weights.extent(0)),
        KOKKOS_LAMBDA(const std::size_t j) { weights(j) -= 0.05F * replica.gradients(j); });
  }
  EXPECT_EQ(network.replay_refusal().empty(), runs_on_host || launches_repeat) << network.replay_refusal();
  for (const float weight : to_host(replica.parameters)) found.push_back(weight);
  return found;
}

TEST(StepRecording, ReplayedStepsGiveTheSameBits) {
  const std::vector<int> sizes{4, 4, 4, 4, 3, 4, 4, 4, 2, 4};
  EXPECT_EQ(train(true, sizes), train(false, sizes));
}

TEST(StepRecording, NetworksWithDropoutAreNotReplayed) {
  NetworkConfig config = lenet5();
  Network plain(config, input, 10, batch);
  plain.replay_steps(true);
  EXPECT_EQ(plain.replays_steps(), !runs_on_host && launches_repeat);
  LayerConfig dropout;
  dropout.name = "drop";
  dropout.type = "dropout";
  dropout.probability = 0.5;
  dropout.inputs = {config.layers[config.layers.size() - 2].name};
  config.layers.insert(config.layers.end() - 1, dropout);
  config.layers.back().inputs = {"drop"};
  Network random(config, input, 10, batch);
  random.replay_steps(true);
  EXPECT_FALSE(random.replays_steps());
}

}  // namespace
}  // namespace halograd::step_recording_test
