#include "data/batch_plan.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "data/augment.hpp"
#include "kernels/error.hpp"

namespace halograd {

const std::vector<ShuffleKind>& shuffle_kinds() {
  static const auto never = [](bool) { return false; };
  static const std::vector<ShuffleKind> kinds{{"auto", [](bool in_memory) { return !in_memory; }, false},
                                              {"full", never, false},
                                              {"window", [](bool) { return true; }, false},
                                              {"ring", never, true}};
  return kinds;
}

BatchPlan::BatchPlan(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options)
    : dataset_(dataset),
      options_(options),
      pad_crop_(options.training ? config.pad_crop : 0),
      flip_(options.training && config.flip),
      shape_(dataset.shape()),
      normalisation_(shape_, config.mean, config.standard_deviation) {
  const long size = dataset.size();
  HALOGRAD_REQUIRE(size <= 0xffffffffL, "the set holds ", size, " images, expected at most 2^32 - 1");
  HALOGRAD_REQUIRE(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, "rank ", options.rank,
                   " of ", options.ranks, " cannot be given images: there is no such rank");
  HALOGRAD_REQUIRE(options.global_batch >= 1, "training.batch is ", options.global_batch, ", expected at least 1");
  HALOGRAD_REQUIRE(!options.training || options.global_batch >= options.ranks, "training.batch is ",
                   options.global_batch, ", expected at least ", options.ranks, ", one image per rank");
  HALOGRAD_REQUIRE(!options.training || options.global_batch <= size, "training.batch is ", options.global_batch,
                   ", expected at most ", size, ", the images of the training set");
  HALOGRAD_REQUIRE(config.pad_crop >= 0 && config.pad_crop < std::min(shape_.height, shape_.width), "data.pad_crop is ",
                   config.pad_crop, ", expected 0..", std::min(shape_.height, shape_.width) - 1, " for images of ",
                   shape_.height, " x ", shape_.width);
  const ShuffleKind& shuffle = row_of(shuffle_kinds(), config.shuffle, "data.shuffle");
  windows_ = shuffle.by_windows(dataset.in_memory());
  window_blocks_ = config.shuffle_window;
  ring_ = shuffle.round_the_ring && options.training;
  place_ = options.rank;
  HALOGRAD_REQUIRE(!options.lots || !ring_,
                   "data.shuffle = \"ring\" passes batches from rank to rank once an epoch, but with this averager "
                   "ranks make different numbers of steps; expected another data.shuffle");
  HALOGRAD_REQUIRE(options.most == 0 || (!windows_ && !ring_),
                   "training.shares = \"measured\" distributes images one by one, but this set is not distributed so "
                   "(data.shuffle); expected data.shuffle = \"full\"");
  if (options.training) return;
  const Range share = share_of(size, options.rank, options.ranks);
  order_.resize(static_cast<std::size_t>(share.size()));
  std::iota(order_.begin(), order_.end(), share.begin);
}

long BatchPlan::steps() const {
  if (options_.training) return steps_of(dataset_.size(), options_.global_batch, options_.ranks);
  return (static_cast<long>(order_.size()) + evaluation_batch() - 1) / evaluation_batch();
}

int BatchPlan::largest_batch() const {
  if (!options_.training) return static_cast<int>(std::min<long>(evaluation_batch(), static_cast<long>(order_.size())));
  if (options_.most > 0) return static_cast<int>(options_.most);
  if (ring_ || options_.lots) return static_cast<int>((images_of_step(0) + options_.ranks - 1) / options_.ranks);
  // A rank's share of a smaller last step may be larger by one: 8 images give ranks 1 2 1 2 2, 7 give 1 1 2 1 2.
  return static_cast<int>(std::max(share_of_step(0).size(), share_of_step(steps() - 1).size()));
}

long BatchPlan::lots_at_once() const {
  if (!windows_) return 1;
  const long images = std::min(window_blocks_ * dataset_.block_images(), dataset_.size() / (16L * options_.ranks));
  return std::clamp(images * options_.ranks / options_.global_batch, 1L, steps() * options_.ranks);
}

void BatchPlan::prepare_lot(long number, Batch& batch) {
  const long lots = steps() * options_.ranks, epoch = number / lots, lot = number % lots;
  if (epoch != epoch_ || lot < lots_begin_ || lot >= lots_end_) start_lots(epoch, lot);
  const Range range = images_of_lot(lot);
  fill({range.begin - order_begin_, range.end - order_begin_}, batch);
  batch.global_size = static_cast<int>(images_of_step(lot / options_.ranks));
  batch.number = number;
}

void BatchPlan::start_epoch(long epoch, long first_step) {
  epoch_ = epoch;
  if (weights_ != next_weights_) {
    weights_ = next_weights_;
    whole_ = share_by_weight(options_.global_batch, options_.rank, weights_, options_.most);
  }
  if (ring_) place_ = static_cast<int>((options_.rank + options_.ranks - epoch % options_.ranks) % options_.ranks);
  if (options_.training) order_ = windows_ ? window_order(epoch) : full_order(epoch);
  // Not where images are read one here, one there from storage that is slow at it: there is nothing to read ahead.
  if (!options_.training || windows_ || dataset_.in_memory())
    dataset_.expect(std::span<const long>(order_).subspan(static_cast<std::size_t>(place_of_step(first_step))));
}

void BatchPlan::prepare_step(long step, Batch& batch) const {
  const Range range{place_of_step(step), place_of_step(step + 1)};
  fill(range, batch);
  batch.global_size = static_cast<int>(options_.training ? images_of_step(step) : range.size());
  batch.number = step;
}

void BatchPlan::fill(const Range& range, Batch& batch) const {
  const auto count = static_cast<std::size_t>(range.size());
  batch.size = static_cast<int>(count);
  batch.images.resize(count * static_cast<std::size_t>(shape_.values()));
  const auto labels = count * static_cast<std::size_t>(dataset_.labels_per_image());
  batch.labels.resize(dataset_.target_values() > 0 ? 0 : labels);
  batch.targets.resize(labels * static_cast<std::size_t>(dataset_.target_values()));
  const std::span<const long> indices(order_.data() + range.begin, count);
  batch.indices.assign(indices.begin(), indices.end());
  dataset_.read(indices, batch.images.data(), batch.labels.data());
  if (dataset_.target_values() > 0) dataset_.read_targets(indices, batch.targets.data());
  if (pad_crop_ > 0 || flip_) augment_batch(indices, batch);
  normalisation_.apply(batch.images.data(), batch.size);
}

long BatchPlan::images_of_step(long step) const {
  return std::min<long>(options_.global_batch, dataset_.size() - step * options_.global_batch);
}

Range BatchPlan::share_of_step(long step) const {
  const long images = images_of_step(step);
  if (weights_.empty()) return share_of(images, place_, options_.ranks);
  if (images == options_.global_batch) return whole_;
  return share_by_weight(images, options_.rank, weights_, options_.most);
}

Range BatchPlan::images_of_lot(long lot) const {
  const long step = lot / options_.ranks;
  const Range share = share_of(images_of_step(step), static_cast<int>(lot % options_.ranks), options_.ranks);
  return {step * options_.global_batch + share.begin, step * options_.global_batch + share.end};
}

void BatchPlan::start_lots(long epoch, long lot) {
  const long lots = steps() * options_.ranks, piece = windows_ ? lots_at_once() : lots;
  lots_begin_ = lot / piece * piece;
  lots_end_ = std::min(lots, lots_begin_ + piece);
  epoch_ = epoch;
  order_begin_ = images_of_lot(lots_begin_).begin;
  if (windows_) {
    const Range part{order_begin_, images_of_lot(lots_end_ - 1).end};
    order_ = window_permutation(dataset_.size(), dataset_.block_images(), window_blocks_, options_.seed, epoch, part);
  } else {
    order_ = epoch_permutation(dataset_.size(), options_.seed, epoch);
  }
  if (!windows_) return;  // a lot here, a lot there: there is nothing to read ahead
  dataset_.expect(
      std::span<const long>(order_).subspan(static_cast<std::size_t>(images_of_lot(lot).begin - order_begin_)));
}

long BatchPlan::place_of_step(long step) const {
  const long batch = options_.training ? share_of_step(0).size() : evaluation_batch();
  return step == steps() ? static_cast<long>(order_.size()) : step * batch;
}

std::vector<long> BatchPlan::full_order(long epoch) const {
  const std::vector<long> all = epoch_permutation(dataset_.size(), options_.seed, ring_ ? 0 : epoch);
  std::vector<long> order;
  for (long step = 0; step < steps(); ++step) {
    const Range share = share_of_step(step);
    const auto start = all.begin() + step * options_.global_batch;
    order.insert(order.end(), start + share.begin, start + share.end);
  }
  return order;
}

std::vector<long> BatchPlan::window_order(long epoch) const {
  const long whole = steps() - 1;
  const Range each = share_of_step(0), last = share_of_step(whole);
  const Range part{whole * each.begin + last.begin, whole * each.end + last.end};
  return window_permutation(dataset_.size(), dataset_.block_images(), window_blocks_, options_.seed, epoch, part);
}

long BatchPlan::evaluation_batch() const {
  return (static_cast<long>(options_.global_batch) + options_.ranks - 1) / options_.ranks;
}

template <class T>
void BatchPlan::augment_images(std::span<const long> indices, int channels, std::vector<T>& images) const {
  const ImageShape shape(shape_.extents(), channels, shape_.dimensions);
  std::vector<T> original(static_cast<std::size_t>(shape.values()));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    T* image = images.data() + i * original.size();
    std::copy_n(image, original.size(), original.begin());
    augment(original.data(), shape, draw_augmentation(options_.seed, epoch_, indices[i], pad_crop_, flip_), image);
  }
}

void BatchPlan::augment_batch(std::span<const long> indices, Batch& batch) const {
  augment_images(indices, shape_.channels, batch.images);
  if (dataset_.labels_per_image() == 1) return;
  if (dataset_.target_values() > 0) {
    augment_images(indices, dataset_.target_values(), batch.targets);
  } else {
    augment_images(indices, 1, batch.labels);
  }
}

}  // namespace halograd
