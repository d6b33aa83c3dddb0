#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.hpp"

namespace halograd {

/// What the network is fed: normalised images (size, H, W, C), labels (size).
struct Batch {
  int size = 0;         ///< images of this rank
  int global_size = 0;  ///< images of all ranks in this step
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

/// How one rank draws its batches.
struct LoaderOptions {
  int global_batch = 1;
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 1;
  bool training = true;  ///< shuffle and augment; otherwise every rank's contiguous share in order, unaltered
  bool prefetch = true;
};

/// Deals a Dataset to ranks, batch by batch. Epoch e is one permutation of the set, a function of (seed, e) alone;
/// step s takes the next global_batch of it and each rank a contiguous part of those, so that the union over ranks is
/// the same for every number of ranks, shards are disjoint, and together they cover the set. The last step of an
/// epoch holds what is left (it is dropped where fewer images than ranks are left). An image's augmentation is a function of
/// (seed, epoch, image). With prefetch, a thread prepares batches ahead; an error there is thrown by next().
class Loader {
 public:
  /// Throws Error where a batch is larger than the set, or smaller than the number of ranks.
  Loader(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Steps an epoch, the same on all ranks.
  [[nodiscard]] long steps() const;
  /// Largest Batch::size that next() returns on this rank.
  [[nodiscard]] int largest_batch() const;
  /// Starts an epoch at one of its steps (resume).
  void start_epoch(long epoch, long first_step = 0);
  /// The next batch, valid until the next call; nullptr at the end of the epoch.
  const Batch* next();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace halograd
