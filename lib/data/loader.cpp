#include "data/loader.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "data/batch_plan.hpp"
#include "kernels/accelerator.hpp"
#include "kernels/copy_stream.hpp"
#include "kernels/error.hpp"
#include "kernels/region.hpp"

namespace halograd {

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
