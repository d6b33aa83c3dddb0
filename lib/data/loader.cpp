#include "data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "data/augment.hpp"
#include "data/sharding.hpp"
#include "kernels/accelerator.hpp"
#include "kernels/copy_stream.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

/// Which images of the set make up each step of one rank, and what is done to them. No state but the epoch's order.
class BatchPlan {
 public:
  BatchPlan(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options)
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
    HALOGRAD_REQUIRE(config.pad_crop >= 0 && config.pad_crop < std::min(shape_.height, shape_.width),
                     "data.pad_crop is ", config.pad_crop, ", expected 0..", std::min(shape_.height, shape_.width) - 1,
                     " for images of ", shape_.height, " x ", shape_.width);
    const ShuffleKind& shuffle = row_of(shuffle_kinds(), config.shuffle, "data.shuffle");
    windows_ = shuffle.by_windows(dataset.in_memory());
    window_blocks_ = config.shuffle_window;
    ring_ = shuffle.round_the_ring && options.training;
    place_ = options.rank;
    HALOGRAD_REQUIRE(options.most == 0 || (!windows_ && !ring_),
                     "training.shares = \"measured\" distributes images one by one, but this set is not distributed so "
                     "(data.shuffle); expected data.shuffle = \"full\"");
    if (options.training) return;
    const Range share = share_of(size, options.rank, options.ranks);
    order_.resize(static_cast<std::size_t>(share.size()));
    std::iota(order_.begin(), order_.end(), share.begin);
  }

  [[nodiscard]] long steps() const {
    if (options_.training) return steps_of(dataset_.size(), options_.global_batch, options_.ranks);
    return (static_cast<long>(order_.size()) + evaluation_batch() - 1) / evaluation_batch();
  }

  [[nodiscard]] int largest_batch() const {
    if (!options_.training)
      return static_cast<int>(std::min<long>(evaluation_batch(), static_cast<long>(order_.size())));
    if (options_.most > 0) return static_cast<int>(options_.most);
    if (ring_) return static_cast<int>((images_of_step(0) + options_.ranks - 1) / options_.ranks);
    // A rank's share of a smaller last step may be larger by one: 8 images give ranks 1 2 1 2 2, 7 give 1 1 2 1 2.
    return static_cast<int>(std::max(share_of_step(0).size(), share_of_step(steps() - 1).size()));
  }

  void set_shares(std::vector<double> weights) { next_weights_ = std::move(weights); }

  void start_epoch(long epoch, long first_step) {
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

  void prepare(long step, Batch& batch) const {
    const Range range{place_of_step(step), place_of_step(step + 1)};
    batch.global_size = static_cast<int>(options_.training ? images_of_step(step) : range.size());
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

 private:
  /// Images of all ranks in a training step.
  [[nodiscard]] long images_of_step(long step) const {
    return std::min<long>(options_.global_batch, dataset_.size() - step * options_.global_batch);
  }

  /// This rank's share of them, as positions among them.
  [[nodiscard]] Range share_of_step(long step) const {
    const long images = images_of_step(step);
    if (weights_.empty()) return share_of(images, place_, options_.ranks);
    if (images == options_.global_batch) return whole_;
    return share_by_weight(images, options_.rank, weights_, options_.most);
  }

  /// Where a step's images begin in order_.
  [[nodiscard]] long place_of_step(long step) const {
    const long batch = options_.training ? share_of_step(0).size() : evaluation_batch();
    return step == steps() ? static_cast<long>(order_.size()) : step * batch;
  }

  /// One permutation of the set for all ranks, of which this one takes its share step by step.
  [[nodiscard]] std::vector<long> full_order(long epoch) const {
    const std::vector<long> all = epoch_permutation(dataset_.size(), options_.seed, ring_ ? 0 : epoch);
    std::vector<long> order;
    for (long step = 0; step < steps(); ++step) {
      const Range share = share_of_step(step);
      const auto start = all.begin() + step * options_.global_batch;
      order.insert(order.end(), start + share.begin, start + share.end);
    }
    return order;
  }

  /// As many images, but in one piece of an order by blocks, so that a rank reads few blocks that others read too.
  [[nodiscard]] std::vector<long> window_order(long epoch) const {
    const long whole = steps() - 1;
    const Range each = share_of_step(0), last = share_of_step(whole);
    const Range part{whole * each.begin + last.begin, whole * each.end + last.end};
    return window_permutation(dataset_.size(), dataset_.block_images(), window_blocks_, options_.seed, epoch, part);
  }

  [[nodiscard]] long evaluation_batch() const {
    return (static_cast<long>(options_.global_batch) + options_.ranks - 1) / options_.ranks;
  }

  void augment_batch(std::span<const long> indices, Batch& batch) const {
    augment_images(indices, shape_.channels, batch.images);
    if (dataset_.labels_per_image() == 1) return;
    if (dataset_.target_values() > 0) {
      augment_images(indices, dataset_.target_values(), batch.targets);
    } else {
      augment_images(indices, 1, batch.labels);
    }
  }

  /// `channels` values per pixel.
  template <class T>
  void augment_images(std::span<const long> indices, int channels, std::vector<T>& images) const {
    const ImageShape shape(shape_.extents(), channels, shape_.dimensions);
    std::vector<T> original(static_cast<std::size_t>(shape.values()));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      T* image = images.data() + i * original.size();
      std::copy_n(image, original.size(), original.begin());
      augment(original.data(), shape, draw_augmentation(options_.seed, epoch_, indices[i], pad_crop_, flip_), image);
    }
  }

  const Dataset& dataset_;
  LoaderOptions options_;
  int pad_crop_;
  bool flip_;
  ImageShape shape_;
  Normalisation normalisation_;
  long epoch_ = 0;
  bool ring_ = false;
  int place_ = 0;  // whose shares this rank takes in the epoch: its own, or on a ring another's
  bool windows_ = false;
  long window_blocks_ = 1;
  std::vector<double> weights_, next_weights_;  // empty: equal shares
  Range whole_;                                 // of this rank in a whole batch, where there are weights
  std::vector<long> order_;                     // what this rank reads in the epoch
};

}  // namespace

/// With prefetch, a thread per epoch fills a ring of slots: one is in the caller's hands, the others lie ready.
const std::vector<ShuffleKind>& shuffle_kinds() {
  static const auto never = [](bool) { return false; };
  static const std::vector<ShuffleKind> kinds{{"auto", [](bool in_memory) { return !in_memory; }, false},
                                              {"full", never, false},
                                              {"window", [](bool) { return true; }, false},
                                              {"ring", never, true}};
  return kinds;
}

class Loader::Implementation {
 public:
  Implementation(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options)
      : plan_(dataset, config, options),
        prefetch_(options.prefetch && config.prefetch),
        slots_(static_cast<std::size_t>(prefetch_ ? config.prefetch_batches + 1 : 1)) {
    if (accelerator_maker() != AcceleratorMaker::none && prefetch_) pin_slots(dataset);
  }
  ~Implementation() { stop(); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  [[nodiscard]] const BatchPlan& plan() const { return plan_; }

  void set_shares(std::vector<double> weights) { plan_.set_shares(std::move(weights)); }

  void start_epoch(long epoch, long first_step) {
    stop();
    HALOGRAD_REQUIRE(first_step >= 0 && first_step <= plan_.steps(), "epoch ", epoch, " cannot start at step ",
                     first_step, ": it has steps 0..", plan_.steps() - 1);
    plan_.start_epoch(epoch, first_step);
    next_ = prepared_ = held_ = first_step;
    error_ = nullptr;
    stopping_ = false;
    started_ = true;
    if (prefetch_ && first_step < plan_.steps()) thread_ = std::thread([this] { prepare_ahead(); });
  }

  const Batch* next() {
    HALOGRAD_REQUIRE(started_, "a loader was asked for a batch before its epoch was started");
    if (next_ >= plan_.steps()) return nullptr;
    Batch& batch = slots_[static_cast<std::size_t>(next_) % slots_.size()];
    if (prefetch_) {
      std::unique_lock<std::mutex> lock(mutex_);
      held_ = next_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return prepared_ > next_ || error_; });
      if (prepared_ <= next_) std::rethrow_exception(error_);
    } else {
      plan_.prepare(next_, batch);
    }
    ++next_;
    return &batch;
  }

  const Batch* ahead() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return started_ && prefetch_ && prepared_ > next_ ? &slots_[static_cast<std::size_t>(next_) % slots_.size()]
                                                      : nullptr;
  }

 private:
  /// So that a device can copy batches while the thread prepares others. The slots keep their memory from now on: none
  /// grows beyond the largest batch.
  void pin_slots(const Dataset& dataset) {
    const auto pin = [&](auto& values, long count) {
      values.reserve(static_cast<std::size_t>(count));
      pinned_.push_back(std::make_unique<PinnedRange>(values.data(), values.capacity() * sizeof(values[0])));
    };
    const long images = plan_.largest_batch(), labels = images * dataset.labels_per_image();
    for (Batch& slot : slots_) {
      pin(slot.images, images * dataset.shape().values());
      pin(slot.labels, dataset.target_values() > 0 ? 0 : labels);
      pin(slot.targets, labels * dataset.target_values());
    }
  }

  void prepare_ahead() {
    const long steps = plan_.steps();
    std::unique_lock<std::mutex> lock(mutex_);
    while (prepared_ < steps) {
      changed_.wait(lock, [this] { return stopping_ || prepared_ < held_ + static_cast<long>(slots_.size()); });
      if (stopping_) return;
      const long step = prepared_;
      lock.unlock();
      std::exception_ptr error;
      try {
        plan_.prepare(step, slots_[static_cast<std::size_t>(step) % slots_.size()]);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      if (!error) ++prepared_;
      changed_.notify_all();
      if (error) return;
    }
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  BatchPlan plan_;
  bool prefetch_;
  std::vector<Batch> slots_;
  std::vector<std::unique_ptr<PinnedRange>> pinned_;  // on accelerators: the memory of the slots
  bool started_ = false;
  long next_ = 0;     // the step that next() will hand out
  std::mutex mutex_;  // guards what follows while the thread runs
  std::condition_variable changed_;
  long held_ = 0;      // the step whose batch the caller holds; its slot and those after it may not be overwritten
  long prepared_ = 0;  // steps before this one lie ready
  bool stopping_ = false;
  std::exception_ptr error_;  // met while preparing step prepared_
  std::thread thread_;
};

Loader::Loader(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options)
    : implementation_(std::make_unique<Implementation>(dataset, config, options)) {}
Loader::~Loader() = default;

long Loader::steps() const {
  return implementation_->plan().steps();
}
int Loader::largest_batch() const {
  return implementation_->plan().largest_batch();
}
void Loader::set_shares(std::vector<double> weights) {
  implementation_->set_shares(std::move(weights));
}
void Loader::start_epoch(long epoch, long first_step) {
  implementation_->start_epoch(epoch, first_step);
}
const Batch* Loader::next() {
  return implementation_->next();
}
const Batch* Loader::ahead() {
  return implementation_->ahead();
}

}  // namespace halograd
