#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/random.hpp"
#include "nn/network.hpp"
#include "nn/reference_networks.hpp"

namespace halograd::network_finite_test {
namespace {

constexpr int batch = 3;

/// lenet5 with a batch, in which something is broken; what the network finds.
class FirstNonFinite : public testing::Test {
 protected:
  FirstNonFinite() : images_(batch * 28 * 28), labels_{1, 2, 3} {
    for (std::size_t i = 0; i < images_.size(); ++i) images_[i] = random_uniform(1, i);
  }
  void break_parameter(const std::string& layer, float value) {
    for (const NamedTensor& tensor : network_.parameters()) {
      if (tensor.layer != layer || tensor.name != "weight") continue;
      const auto weight = slice(replica_.parameters, tensor.offset + 1, 1);
      Kokkos::deep_copy(weight, value);
    }
  }
  std::string find() {
    const HostBatch host{batch, images_.data(), labels_.data()};
    network_.train(exec_, replica_, host, 1);
    return network_.first_non_finite(exec_, replica_, host, 1);
  }

  ExecutionSpace exec_;
  NetworkConfig config_ = expand_network({"lenet5", {}}, 10);
  Network network_{config_, {28, 28, 1}, 10, batch};
  Replica replica_ = network_.make_replica(1);
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
};

TEST_F(FirstNonFinite, NothingWhereAllIsWell) {
  EXPECT_EQ(find(), "");
}

TEST_F(FirstNonFinite, Images) {
  images_[28 * 28 + 5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(find(), "the images");
}

TEST_F(FirstNonFinite, TheLayerWhoseOutputIsTheFirst) {
  break_parameter("dense1", std::numeric_limits<float>::infinity());
  EXPECT_EQ(find(), "the output of layer relu3");  // what dense1 and the ReLU fused into it give
}

TEST_F(FirstNonFinite, TheLossOfALabelThatIsNoClass) {
  labels_[1] = 10;
  EXPECT_EQ(find(), "the loss");
}

}  // namespace
}  // namespace halograd::network_finite_test
