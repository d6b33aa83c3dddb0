#pragma once

#include <chrono>
#include <mutex>
#include <thread>

namespace halograd {

/// A test aid: makes reads as slow as a busy shared file system would, `megabytes` (1e6 bytes) a second for all threads
/// together; 0: as fast as they are.
class Throttle {
 public:
  explicit Throttle(double megabytes) : bytes_per_second_(1e6 * megabytes) {}

  /// Called before a read of `bytes` bytes: returns when the reads before it and this one would have ended.
  void pass(std::size_t bytes) {
    if (bytes_per_second_ <= 0) return;
    const auto now = Clock::now();
    Clock::time_point end;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_second_);
      free_ = std::max(free_, now) + std::chrono::duration_cast<Clock::duration>(time);
      end = free_;
    }
    std::this_thread::sleep_until(end);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double bytes_per_second_;
  std::mutex mutex_;
  Clock::time_point free_;
};

}  // namespace halograd
