#pragma once

#include <cstddef>
#include <memory>

namespace halograd {

/// Copies from host to device memory that go on beside the kernels: on a stream of their own, which waits for no other
/// and no other waits for. On cores a copy is done when copy() returns.
class CopyStream {
 public:
  /// Throws Error where the device gives no stream; so do the others where a copy failed.
  CopyStream();
  ~CopyStream();  ///< waits
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// Neither range may be touched before wait(). Goes on in the background where `from` is pinned.
  void copy(void* to, const void* from, std::size_t bytes);
  /// Until all copies so far are done.
  void wait();

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// Keeps a range of host memory in place (pinned) as long as it lives, so that a device reads it without help. Does
/// nothing on cores; where the system refuses, copies from the range are slower.
class PinnedRange {
 public:
  PinnedRange(void* begin, std::size_t bytes);
  ~PinnedRange();
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  void* begin_;  // null: not pinned
};

}  // namespace halograd
