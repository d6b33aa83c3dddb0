// Ten training steps against PyTorch's, made by tests/nn/golden.py in double.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <string>
#include <vector>

#include "config/read.hpp"
#include "nn/network.hpp"
#include "tests/kernels/buffers.hpp"
#include "train/optimizer.hpp"

namespace halograd {
namespace {

class GoldenFile {
 public:
  GoldenFile() : file_(H5Fopen(HALOGRAD_SOURCE_DIR "/tests/nn/golden.h5", H5F_ACC_RDONLY, H5P_DEFAULT)) {}
  ~GoldenFile() { H5Fclose(file_); }
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;

  [[nodiscard]] std::vector<double> values(const std::string& path) const {
    const hid_t dataset = H5Dopen2(file_, path.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<double> result(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, result.data()), 0) << path;
    H5Sclose(space);
    H5Dclose(dataset);
    return result;
  }
  [[nodiscard]] std::string config() const {
    const hid_t attribute = H5Aopen(file_, "config", H5P_DEFAULT);
    const hid_t type = H5Aget_type(attribute);
    char* text = nullptr;
    H5Aread(attribute, type, &text);
    std::string result = text;
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
    return result;
  }

 private:
  hid_t file_;
};

/// One flat buffer of a golden group, in the network's own order.
std::vector<float> flat(const GoldenFile& file, const std::string& group, const std::vector<TensorInfo>& tensors) {
  std::vector<float> result;
  for (const TensorInfo& tensor : tensors) {
    const std::vector<double> values = file.values(group + "/" + tensor.layer + "/" + tensor.name);
    EXPECT_EQ(values.size(), tensor.size()) << tensor.layer << "/" << tensor.name;
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

void expect_close(const std::vector<float>& expected, const std::vector<float>& found, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], found[i], tolerance * std::max(1.0F, std::abs(expected[i]))) << what << " at " << i;
  }
}

TEST(Golden, TenStepsMatchPyTorch) {
  const GoldenFile file;
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
    optimizer->step(exec, config.optimizer.learning_rate, static_cast<std::int64_t>(step) + 1, replica.parameters,
                    replica.gradients);
  }
  expect_close(flat(file, "final", network.parameters()), to_host(replica.parameters), 1e-4, "parameters");
  expect_close(flat(file, "final", network.statistics()), to_host(replica.statistics), 1e-4, "statistics");
  const double evaluation = network.evaluate(exec, replica, {batch, images.data(), labels.data()}).loss / batch;
  EXPECT_NEAR(evaluation, file.values("evaluation_loss")[0], 1e-4);
}

}  // namespace
}  // namespace halograd
