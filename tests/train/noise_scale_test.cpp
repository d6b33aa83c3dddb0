#include "train/noise_scale.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "data/loader.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "train/model.hpp"

namespace halograd::noise_scale_test {
namespace {

Buffer<float> on_device(const std::vector<float>& values) {
  Buffer<float> buffer("gradient", values.size());
  Kokkos::deep_copy(buffer, HostVector<const float>(values.data(), values.size()));
  return buffer;
}

/// Linear regression y = w x + noise at weights that are off by `distance` in each direction, x standard normal: the
/// gradient (x.d - e) x of an image has the mean d and the covariance (|d|^2 + s^2) I + d d^T (Isserlis), with the
/// standard deviation s of the noise e.
TEST(NoiseScale, LinearRegressionByHand) {
  constexpr int dimensions = 20, batch = 10, batches = 400;
  constexpr double distance = 0.3, noise = 1;
  const double length_squared = dimensions * distance * distance;
  const double variance = dimensions * (length_squared + noise * noise) + length_squared;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  NoiseScaleSums sums(dimensions, batch);
  const ExecutionSpace exec;
  for (int i = 0; i < batches; ++i) {
    std::vector<float> gradient(dimensions, 0.0F);
    for (int image = 0; image < batch; ++image) {
      std::vector<double> x(dimensions);
      double error = -noise * normal(random);
      for (double& value : x) {
        value = normal(random);
        error += distance * value;
      }
      for (int k = 0; k < dimensions; ++k) gradient[k] += static_cast<float>(error * x[k] / batch);
    }
    sums.add(exec, on_device(gradient));
  }
  const NoiseScale found = sums.result(exec);
  EXPECT_NEAR(found.variance, variance, 0.1 * variance);
  EXPECT_NEAR(found.gradient_squared, length_squared, 0.1 * length_squared);
  EXPECT_NEAR(found.images, variance / length_squared, 0.15 * variance / length_squared);
  EXPECT_LT(found.least, variance / length_squared);
  EXPECT_GT(found.most, variance / length_squared);
}

TEST(NoiseScale, NoiseAloneHasNoUpperEnd) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  NoiseScaleSums sums(1000, 4);
  for (int i = 0; i < 32; ++i) {
    std::vector<float> gradient(1000);
    for (float& value : gradient) value = normal(random);
    sums.add(ExecutionSpace(), on_device(gradient));
  }
  const NoiseScale found = sums.result(ExecutionSpace());
  EXPECT_TRUE(std::isinf(found.most));
  EXPECT_GT(found.least, 128);  // images that were seen
  EXPECT_NEAR(found.variance, 4000, 100);
}

TEST(NoiseScale, TooFewBatchesAreRefused) {
  NoiseScaleSums sums(3, 1);
  for (int i = 1; i < NoiseScaleSums::least_batches; ++i) sums.add(ExecutionSpace(), on_device({1, 2, 3}));
  EXPECT_THROW((void)sums.result(ExecutionSpace()), Error);
}

RunConfig digits(int batch) {
  return read_config(HALOGRAD_SOURCE_DIR "/inputs/digits.toml", {"training.batch=" + std::to_string(batch)});
}

/// Against the gradient of every single image of the training set at the same weights, those of the start. A set of N
/// images that are drawn from all there could be has |G|^2 larger by tr(Sigma) / N than they.
TEST(NoiseScale, OfDigitsIsThatOfTheGradientsOfAllImages) {
  RunConfig config = digits(32);
  // Batch normalisation makes an image's gradient depend on the others of its batch: without it they are independent.
  std::erase_if(config.network.layers, [](const LayerConfig& layer) { return layer.type.starts_with("batch_norm"); });
  const NoiseScale found = measure_noise_scale(config, 0);

  const auto data = open_dataset(config.data, Split::train, config.training.seed);
  const auto network = build_model(config, *data, 1);
  const Replica replica = network->make_replica(config.training.seed);
  LoaderOptions one_by_one;
  one_by_one.seed = config.training.seed;
  Loader loader(*data, config.data, one_by_one);
  loader.start_epoch(0);
  std::vector<double> sum(network->parameter_count(), 0.0);
  double squares = 0, images = 0;
  const ExecutionSpace exec;
  while (const Batch* batch = loader.next()) {
    network->train(exec, replica, {1, batch->images.data(), batch->labels.data()}, 0);
    const auto gradient = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), replica.gradients);
    for (std::size_t k = 0; k < sum.size(); ++k) {
      sum[k] += gradient(k);
      squares += static_cast<double>(gradient(k)) * gradient(k);
    }
    ++images;
  }
  double total = 0;
  for (const double each : sum) total += each * each;
  const double variance = (squares - total / images) / (images - 1);
  const double scale = variance / (total / images / images - variance / images);
  EXPECT_NEAR(found.variance, variance, 0.1 * variance);
  EXPECT_LT(found.least, scale);
  EXPECT_GT(found.most, scale);
  EXPECT_NEAR(found.images, scale, 0.3 * scale);
}

/// Training leaves less of the gradient and as much of the noise.
TEST(NoiseScale, OfDigitsGrowsDuringTraining) {
  EXPECT_GT(measure_noise_scale(digits(32), 100).images, 2 * measure_noise_scale(digits(32), 0).images);
}

TEST(NoiseScale, ASetOfTooFewBatchesIsRefused) {
  EXPECT_THROW(measure_noise_scale(digits(512), 0), Error);
}

}  // namespace
}  // namespace halograd::noise_scale_test
