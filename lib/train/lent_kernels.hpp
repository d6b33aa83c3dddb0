#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "kernels/error.hpp"

namespace halograd {

/// Kernels run on the training's thread alone. Between two steps it lends them to another thread of this rank.
class LentKernels {
 public:
  LentKernels() = default;
  LentKernels(const LentKernels&) = delete;
  LentKernels& operator=(const LentKernels&) = delete;

  /// By the other thread: waits until the training's thread has done this work. Throws Error where it ends without.
  void borrow(const std::function<void()>& work) {
    std::unique_lock<std::mutex> lock(mutex_);
    work_ = &work;
    changed_.wait(lock, [this] { return work_ == nullptr || closed_; });
    HALOGRAD_REQUIRE(work_ == nullptr, "the training ended before its evaluation was done");
  }

  /// By the training's thread: whether there is work that is asked for.
  [[nodiscard]] bool wanted() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return work_ != nullptr;
  }
  /// By the training's thread: does the work that is asked for, if any. Throws what it throws.
  void lend() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (work_ == nullptr) return;
    lock.unlock();
    (*work_)();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }

  /// By the training's thread, at its end: there will be no more of this.
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;  ///< asked for and not done
  bool closed_ = false;
};

}  // namespace halograd
