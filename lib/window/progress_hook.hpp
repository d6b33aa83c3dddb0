#pragma once

#include <functional>

namespace halograd {

/// Work that has to go on while this rank computes, such as receiving what others send. MPI's progress is that of the
/// whole process, and so are hooks: every ProgressThread runs those that exist in each of its bursts.
class ProgressHook {
 public:
  /// `work` is called on other threads, one call at a time, and never waits.
  explicit ProgressHook(std::function<void()> work);
  /// Returns when no call of the work is running any more.
  ~ProgressHook();
  ProgressHook(const ProgressHook&) = delete;
  ProgressHook& operator=(const ProgressHook&) = delete;

  /// Runs all hooks of this process once.
  static void run_all();
  [[nodiscard]] static bool any();

 private:
  std::function<void()> work_;
};

}  // namespace halograd
