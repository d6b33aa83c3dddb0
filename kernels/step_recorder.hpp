#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/types.hpp"

namespace halograd {

/// Work that is the same step after step, given to a device as one graph of its kernels, which costs one launch instead
/// of one a kernel. The first run of some work is a plain one, the second records it, all further ones replay. On cores
/// each run is a plain one, and so on a device from the first recording on that fails.
class StepRecorder {
 public:
  /// What the work depends on: it may be replayed where all of this is the same.
  struct Key {
    long size = 0;                         ///< work of one size, that of the first run, is recorded
    std::array<const void*, 4> buffers{};  ///< what it reads and writes
    bool operator==(const Key&) const = default;
  };

  StepRecorder();
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Gives launch(exec)'s kernels to `exec`, where launch may be called with another instance, or not at all. It must
  /// neither wait nor copy between host and device, nor give kernels numbers that change without the key.
  template <class Launch>
  void run(const ExecutionSpace& exec, const Key& key, const Launch& launch) {
    if constexpr (runs_on_host) {
      launch(exec);
    } else {
      record_or_replay(exec, key, std::cref(launch));
    }
  }

  /// Forgets what it has recorded: the work has changed.
  void clear();

  /// Why work is not recorded; empty where it is, or may be.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  struct Stream;
  struct Recording;
  using AnyLaunch = std::function<void(const ExecutionSpace&)>;
  void record_or_replay(const ExecutionSpace& exec, const Key& key, const AnyLaunch& launch);
  void record(Recording& recording, const AnyLaunch& launch);
  void refuse(const std::string& why);

  std::unique_ptr<Stream> stream_;  // none before the first run
  std::vector<std::unique_ptr<Recording>> recordings_;
  std::string refusal_;
};

}  // namespace halograd
