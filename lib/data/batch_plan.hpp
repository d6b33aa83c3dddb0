#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "config/data_config.hpp"
#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "data/sharding.hpp"
#include "support/table.hpp"

namespace halograd {

/// What the network is fed: normalised images (size, H, W, C), labels (size, labels_per_image).
struct Batch {
  long number = 0;      ///< of the step in its epoch; of the lot in the training, where lots are dealt
  int size = 0;         ///< images of this rank
  int global_size = 0;  ///< training: images of all ranks in this step; evaluation: the same as size
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<float> targets;  ///< in place of labels where these are real numbers: (size, labels_per_image, values)
  std::vector<long> indices;   ///< of the images in the set
};

/// Which training images may meet in a batch: data.shuffle.
struct ShuffleKind {
  const char* name;
  Fact<bool (*)(bool in_memory)> by_windows;  ///< whether images meet only those of a window of blocks
  Fact<bool> round_the_ring;                  ///< batches stay as they are and go from rank to rank, an epoch each
};
const std::vector<ShuffleKind>& shuffle_kinds();

/// How one rank draws its batches.
struct LoaderOptions {
  int global_batch = 1;
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 1;
  bool training = true;  ///< shuffle and augment; otherwise every rank's contiguous share in order, normalised only
  bool prefetch = true;
  /// Training: batches are lots that start_dealing() says, not the rank's own steps.
  bool lots = false;
  /// Images of a rank and step where shares may be set, at least those of equal shares; 0: they may not.
  long most = 0;
};

/// Which images of a set make up each step of one rank, and what is done to them (Loader says how they are dealt). No
/// state but the epoch's order.
class BatchPlan {
 public:
  /// Throws Error as Loader's constructor. The dataset must outlive the plan.
  BatchPlan(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options);

  [[nodiscard]] long steps() const;
  [[nodiscard]] int ranks() const { return options_.ranks; }
  [[nodiscard]] int largest_batch() const;
  [[nodiscard]] bool deals_lots() const { return options_.lots; }
  [[nodiscard]] bool deals_by_ranks() const { return windows_ || ring_; }
  /// With windows: lots whose images fill a window, but few enough that no rank holds much of an epoch.
  [[nodiscard]] long lots_at_once() const;

  void set_shares(std::vector<double> weights) { next_weights_ = std::move(weights); }
  void start_epoch(long epoch, long first_step);
  void prepare_step(long step, Batch& batch) const;
  /// Needs no start_epoch(): any lot of any epoch.
  void prepare_lot(long number, Batch& batch);

 private:
  /// The images at these positions of order_.
  void fill(const Range& range, Batch& batch) const;
  /// Images of all ranks in a training step.
  [[nodiscard]] long images_of_step(long step) const;
  /// This rank's share of them, as positions among them.
  [[nodiscard]] Range share_of_step(long step) const;
  /// Positions in the epoch's order.
  [[nodiscard]] Range images_of_lot(long lot) const;
  /// Order_ becomes the piece of the epoch's order that `lot` lies in: all of it, or the lots that are taken at once.
  void start_lots(long epoch, long lot);
  /// Where a step's images begin in order_.
  [[nodiscard]] long place_of_step(long step) const;
  /// One permutation of the set for all ranks, of which this one takes its share step by step.
  [[nodiscard]] std::vector<long> full_order(long epoch) const;
  /// As many images, but in one piece of an order by blocks, so that a rank reads few blocks that others read too.
  [[nodiscard]] std::vector<long> window_order(long epoch) const;
  [[nodiscard]] long evaluation_batch() const;
  void augment_batch(std::span<const long> indices, Batch& batch) const;
  /// `channels` values per pixel.
  template <class T>
  void augment_images(std::span<const long> indices, int channels, std::vector<T>& images) const;

  const Dataset& dataset_;
  LoaderOptions options_;
  int pad_crop_;
  bool flip_;
  ImageShape shape_;
  Normalisation normalisation_;
  long epoch_ = -1;
  bool ring_ = false;
  int place_ = 0;  // whose shares this rank takes in the epoch: its own, or on a ring another's
  bool windows_ = false;
  long window_blocks_ = 1;
  std::vector<double> weights_, next_weights_;            // empty: equal shares
  Range whole_;                                           // of this rank in a whole batch, where there are weights
  std::vector<long> order_;                               // what this rank reads in the epoch
  long lots_begin_ = 0, lots_end_ = 0, order_begin_ = 0;  // of lots: those that order_ holds, and where it begins
};

}  // namespace halograd
