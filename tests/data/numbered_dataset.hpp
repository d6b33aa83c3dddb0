#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "data/loader.hpp"
#include "kernels/error.hpp"

/// A set whose images tell which they are, and epochs of it.
namespace halograd {

inline constexpr ImageShape shape{4, 5, 2};
inline constexpr int values = 40;

/// Image i holds the values i + 1 + (0..39)/64; its label is i, so that a batch tells which images it is made of.
class NumberedDataset final : public Dataset {
 public:
  explicit NumberedDataset(long size, long broken = -1) : size_(size), broken_(broken) {}
  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return halograd::shape; }
  [[nodiscard]] int classes() const override { return static_cast<int>(size_); }
  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    ++reads;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      HALOGRAD_REQUIRE(indices[i] != broken_, "image ", broken_, " is broken");
      labels[i] = static_cast<std::int32_t>(indices[i]);
      fill(indices[i], images + i * values);
    }
  }
  static void fill(long index, float* image) {
    for (int j = 0; j < values; ++j) image[j] = static_cast<float>(index + 1) + static_cast<float>(j) / 64;
  }
  mutable std::atomic<int> reads = 0;

 private:
  long size_;
  long broken_;
};

inline LoaderOptions options(int batch, int rank = 0, int ranks = 1, std::uint64_t seed = 1) {
  LoaderOptions chosen;
  chosen.global_batch = batch;
  chosen.rank = rank;
  chosen.ranks = ranks;
  chosen.seed = seed;
  return chosen;
}

inline DataConfig augmented() {
  DataConfig config;
  config.pad_crop = 2;
  config.flip = true;
  config.mean = {0.25, 0.5};
  config.standard_deviation = {0.5, 2.0};
  return config;
}

inline std::vector<Batch> epoch_of(Loader& loader, long epoch, long first_step = 0) {
  std::vector<Batch> batches;
  loader.start_epoch(epoch, first_step);
  while (const Batch* batch = loader.next()) batches.push_back(*batch);
  return batches;
}

inline std::vector<Batch> epoch_of(const Dataset& set, const DataConfig& config, const LoaderOptions& chosen,
                                   long epoch) {
  Loader loader(set, config, chosen);
  return epoch_of(loader, epoch);
}

inline void expect_same(const Batch& left, const Batch& right) {
  EXPECT_EQ(left.size, right.size);
  EXPECT_EQ(left.global_size, right.global_size);
  EXPECT_EQ(left.labels, right.labels);
  EXPECT_EQ(left.images, right.images);
}

inline void expect_same(const std::vector<Batch>& left, const std::vector<Batch>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) expect_same(left[i], right[i]);
}

inline std::vector<std::int32_t> labels_of(const std::vector<Batch>& batches) {
  std::vector<std::int32_t> labels;
  for (const Batch& batch : batches) labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
  return labels;
}

}  // namespace halograd
