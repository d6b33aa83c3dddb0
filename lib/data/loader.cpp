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
#include "kernels/region.hpp"

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

  [[nodiscard]] long steps() const {
    if (options_.training) return steps_of(dataset_.size(), options_.global_batch, options_.ranks);
    return (static_cast<long>(order_.size()) + evaluation_batch() - 1) / evaluation_batch();
  }

  [[nodiscard]] int largest_batch() const {
    if (!options_.training)
      return static_cast<int>(std::min<long>(evaluation_batch(), static_cast<long>(order_.size())));
    if (options_.most > 0) return static_cast<int>(options_.most);
    if (ring_ || options_.lots) return static_cast<int>((images_of_step(0) + options_.ranks - 1) / options_.ranks);
    // A rank's share of a smaller last step may be larger by one: 8 images give ranks 1 2 1 2 2, 7 give 1 1 2 1 2.
    return static_cast<int>(std::max(share_of_step(0).size(), share_of_step(steps() - 1).size()));
  }

  [[nodiscard]] int ranks() const { return options_.ranks; }
  [[nodiscard]] bool deals_lots() const { return options_.lots; }

  [[nodiscard]] bool deals_by_ranks() const { return windows_ || ring_; }

  /// With windows: lots whose images fill a window, but few enough that no rank holds much of an epoch.
  [[nodiscard]] long lots_at_once() const {
    if (!windows_) return 1;
    const long images = std::min(window_blocks_ * dataset_.block_images(), dataset_.size() / (16L * options_.ranks));
    return std::clamp(images * options_.ranks / options_.global_batch, 1L, steps() * options_.ranks);
  }

  void set_shares(std::vector<double> weights) { next_weights_ = std::move(weights); }

  /// A number that draw() gave becomes a batch.
  void prepare_lot(long number, Batch& batch) {
    const long lots = steps() * options_.ranks, epoch = number / lots, lot = number % lots;
    if (epoch != epoch_ || lot < lots_begin_ || lot >= lots_end_) start_lots(epoch, lot);
    const Range range = images_of_lot(lot);
    fill({range.begin - order_begin_, range.end - order_begin_}, batch);
    batch.global_size = static_cast<int>(images_of_step(lot / options_.ranks));
    batch.number = number;
  }

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

  void prepare_step(long step, Batch& batch) const {
    const Range range{place_of_step(step), place_of_step(step + 1)};
    fill(range, batch);
    batch.global_size = static_cast<int>(options_.training ? images_of_step(step) : range.size());
    batch.number = step;
  }

 private:
  /// The images at these positions of order_.
  void fill(const Range& range, Batch& batch) const {
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

  /// Positions in the epoch's order.
  [[nodiscard]] Range images_of_lot(long lot) const {
    const long step = lot / options_.ranks;
    const Range share = share_of(images_of_step(step), static_cast<int>(lot % options_.ranks), options_.ranks);
    return {step * options_.global_batch + share.begin, step * options_.global_batch + share.end};
  }

  /// Order_ becomes the piece of the epoch's order that `lot` lies in: all of it, or the lots that are taken at once.
  void start_lots(long epoch, long lot) {
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

}  // namespace

const std::vector<ShuffleKind>& shuffle_kinds() {
  static const auto never = [](bool) { return false; };
  static const std::vector<ShuffleKind> kinds{{"auto", [](bool in_memory) { return !in_memory; }, false},
                                              {"full", never, false},
                                              {"window", [](bool) { return true; }, false},
                                              {"ring", never, true}};
  return kinds;
}

/// With prefetch, a thread fills a ring of slots: one is in the caller's hands, the others lie ready.
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
    start([step = first_step, steps = plan_.steps()]() mutable {
      return step < steps ? std::optional(step++) : std::nullopt;
    });
  }

  void start_dealing(std::function<std::optional<long>()> draw) {
    stop();
    start(std::move(draw));
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

  const Batch* next() {
    HALOGRAD_REQUIRE(draw_, "a loader was asked for a batch before its epoch was started");
    Batch& batch = slot(next_);
    if (prefetch_) {
      std::unique_lock<std::mutex> lock(mutex_);
      held_ = next_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return prepared_ > next_ || error_ || at_end_; });
      if (prepared_ <= next_ && error_) std::rethrow_exception(error_);
      if (prepared_ <= next_) return at_end();
    } else if (!prepare(batch)) {
      return at_end();
    }
    ++next_;
    return &batch;
  }

  const Batch* ahead() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return prefetch_ && prepared_ > next_ ? &slot(next_) : nullptr;
  }

 private:
  /// No batch: the memory of the slots goes to whoever is next, the evaluation or the training, unless it is pinned.
  const Batch* at_end() {
    if (pinned_.empty()) slots_ = std::vector<Batch>(slots_.size());
    return nullptr;
  }

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

  Batch& slot(long number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }

  void start(std::function<std::optional<long>()> draw) {
    draw_ = std::move(draw);
    drawn_.reset();
    next_ = prepared_ = held_ = 0;
    error_ = nullptr;
    stopping_ = at_end_ = false;
    if (prefetch_) thread_ = std::thread([this] { prepare_ahead(); });
  }

  /// The next batch; whether there is one.
  bool prepare(Batch& batch) {
    if (!drawn_) drawn_ = draw_();
    if (!drawn_) return false;
    if (plan_.deals_lots()) {
      plan_.prepare_lot(*drawn_, batch);
    } else {
      plan_.prepare_step(*drawn_, batch);
    }
    drawn_.reset();
    return true;
  }

  void prepare_ahead() {
    // A single lot is drawn when the one before is begun: a slow rank is not to hold what others could do.
    const long most_ahead = plan_.deals_lots() && plan_.lots_at_once() == 1 ? 2 : static_cast<long>(slots_.size());
    std::unique_lock<std::mutex> lock(mutex_);
    while (!at_end_ && !error_) {
      changed_.wait(lock, [&] { return stopping_ || prepared_ < held_ + most_ahead; });
      if (stopping_) return;
      const long number = prepared_;
      lock.unlock();
      std::exception_ptr error;
      bool is_one = false;
      try {
        is_one = prepare(slot(number));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      at_end_ = !is_one && !error;
      if (is_one) ++prepared_;
      changed_.notify_all();
    }
  }

  BatchPlan plan_;
  bool prefetch_;
  std::vector<Batch> slots_;
  std::vector<std::unique_ptr<PinnedRange>> pinned_;  // on accelerators: the memory of the slots
  std::function<std::optional<long>()> draw_;         // numbers of steps or lots
  std::optional<long> drawn_;                         // and not prepared yet
  long next_ = 0;                                     // batches that next() has handed out
  std::mutex mutex_;                                  // guards what follows while the thread runs
  std::condition_variable changed_;
  long held_ = 0;      // the batch that the caller holds; its slot and those after it may not be overwritten
  long prepared_ = 0;  // batches before this one lie ready
  bool stopping_ = false, at_end_ = false;
  std::exception_ptr error_;  // met while preparing batch prepared_
  std::thread thread_;
};

Loader::Loader(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options)
    : implementation_(std::make_unique<Implementation>(dataset, config, options)) {}
Loader::~Loader() = default;

long Loader::steps() const {
  return implementation_->plan().steps();
}
int Loader::ranks() const {
  return implementation_->plan().ranks();
}
bool Loader::deals_by_ranks() const {
  return implementation_->plan().deals_by_ranks();
}
long Loader::lots_at_once() const {
  return implementation_->plan().lots_at_once();
}
void Loader::start_dealing(std::function<std::optional<long>()> draw) {
  implementation_->start_dealing(std::move(draw));
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
void Loader::stop() {
  implementation_->stop();
}
const Batch* Loader::next() {
  const Region region("next_batch");
  return implementation_->next();
}
const Batch* Loader::ahead() {
  return implementation_->ahead();
}

}  // namespace halograd
