#include "train/segmentation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"

namespace halograd::segmentation_test {
namespace {

using Labels = std::vector<std::uint32_t>;

/// A network of one weight that takes bright pixels for the object's: logit 10 (x - 1/2), whatever the mask says.
class BrightPixels {
 public:
  explicit BrightPixels(const Shape& view) {
    LayerConfig layer;
    layer.type = "conv";
    layer.name = "bright";
    layer.channels = 1;
    Target target(2, view.pixels());
    target.loss.name = "binary_cross_entropy";
    network_ = std::make_unique<Network>(NetworkConfig{"bright", {layer}}, view, target, 1);
    replica_ = network_->make_replica(1);
    const auto host = Kokkos::create_mirror_view(replica_.parameters);
    const float values[] = {0, 10, -5};
    std::copy(std::begin(values), std::end(values), host.data());
    Kokkos::deep_copy(replica_.parameters, host);
  }
  Objects segment(const FloodFillingConfig& config, const std::vector<float>& image, const Shape& shape,
                  const SegmentationRules& rules) {
    return halograd::segment(*network_, replica_, config, image, shape, rules, [](double /*share*/) {});
  }

 private:
  std::unique_ptr<Network> network_;
  Replica replica_;
};

/// A plane with an L of 3 pixels' width, a square, and a speck.
TEST(Segmentation, FollowsObjectsToTheirEnds) {
  const Shape shape{40, 60, 1};
  std::vector<float> image(40 * 60, 0.0F);
  Labels truth(40 * 60, 0);
  const auto fill = [&](int top, int left, int bottom, int right, std::uint32_t label) {
    for (int h = top; h < bottom; ++h) {
      for (int w = left; w < right; ++w) {
        image[h * 60 + w] = 1;
        truth[h * 60 + w] = label;
      }
    }
  };
  fill(5, 5, 33, 8, 1);
  fill(30, 5, 33, 30, 1);
  fill(8, 45, 17, 54, 2);
  fill(20, 20, 22, 22, 0);
  FloodFillingConfig config;
  config.view = {5};
  config.move = {2};
  BrightPixels network({5, 5, 2});
  for (const bool backwards : {false, true}) {
    SegmentationRules rules;
    rules.least_pixels = 10;
    rules.backwards = backwards;
    const Objects objects = network.segment(config, image, shape, rules);
    ASSERT_EQ(objects.count, 2U);
    const std::uint32_t first = objects.labels[5 * 60 + 5];
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const std::uint32_t expected = truth[i] == 0 ? 0 : truth[i] == 1 ? first : 3 - first;
      ASSERT_EQ(objects.labels[i], expected) << i / 60 << " " << i % 60;
    }
  }
}

TEST(Consensus, SplitsWhereEitherDoes) {
  const Objects one{{1, 1, 1, 1, 0, 2, 2, 2}, 2}, other{{1, 1, 2, 2, 2, 2, 2, 3}, 3};
  const Objects both = consensus(one, other, 2);
  EXPECT_EQ(both.count, 3U);
  EXPECT_EQ(both.labels, (Labels{1, 1, 2, 2, 0, 3, 3, 0}));  // what is left of 3 is one pixel
}

TEST(Slabs, CoverAnImage) {
  for (const int ranks : {1, 2, 3, 7}) {
    int end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Slab slab = slab_of(50, 7, rank, ranks);
      EXPECT_EQ(slab.core_begin, end);
      EXPECT_EQ(slab.begin, std::max(0, slab.core_begin - 7));
      EXPECT_EQ(slab.end, std::min(50, slab.core_end + 7));
      end = slab.core_end;
    }
    EXPECT_EQ(end, 50);
  }
  EXPECT_THROW(slab_of(50, 7, 0, 8), Error);
}

}  // namespace
}  // namespace halograd::segmentation_test
