// Ten training steps against PyTorch's, made by tests/nn/golden.py in double.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nn/network.hpp"
#include "optimizers/optimizer.hpp"
#include "run/read.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/nn/golden_file.hpp"

namespace halograd::golden_test {
namespace {

TEST(Golden, TenStepsMatchPyTorch) {
  const GoldenFile file("golden.h5");
  const RunConfig config = parse_config(file.config(), "golden.h5");
  constexpr int batch = 8, size = 12, channels = 2, classes = 5;
  Network network(config.network, {size, size, channels}, classes, batch);
  const Replica replica = network.make_replica(1);
  Kokkos::deep_copy(replica.parameters, to_device<float>(flat(file, "initial", network.parameters())));
  const auto optimizer = make_optimizer(config.optimizer, network.parameter_count());

  const std::vector<double> all_images = file.values("images"), all_labels = file.values("labels"),
                            losses = file.values("loss");
  const std::size_t image_values = static_cast<std::size_t>(batch) * size * size * channels;
  const std::vector<float> images(all_images.begin(), all_images.end());
  const std::vector<std::int32_t> labels(all_labels.begin(), all_labels.end());
  const ExecutionSpace exec;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const HostBatch part{batch, images.data() + step * image_values, labels.data() + step * batch};
    const LossSum loss = network.train(exec, replica, part, 0);
    ASSERT_NEAR(loss.loss / batch, losses[step], 2e-5 * losses[step]) << "step " << step;
    if (step == 0) {
      expect_close(flat(file, "gradient", network.parameters()), to_host(replica.gradients), 2e-6, "gradient");
      if (HasFatalFailure()) return;
    }
    optimizer->step(exec, config.optimizer.learning_rate, static_cast<std::int64_t>(step) + 1, 0, replica.parameters,
                    replica.gradients);
  }
  expect_close(flat(file, "final", network.parameters()), to_host(replica.parameters), 1e-4, "parameters");
  expect_close(flat(file, "final", network.statistics()), to_host(replica.statistics), 1e-4, "statistics");
  const double evaluation = network.evaluate(exec, replica, {batch, images.data(), labels.data()}).loss / batch;
  EXPECT_NEAR(evaluation, file.values("evaluation_loss")[0], 1e-4);
}

}  // namespace
}  // namespace halograd::golden_test
