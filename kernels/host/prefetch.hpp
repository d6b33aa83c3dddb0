#pragma once

#include <algorithm>

namespace halograd::host {

/// Asks for memory before it is needed, a piece at a time between the computations that it is to overlap with: what a
/// hardware prefetcher does not see coming, because something else is worked on in between. To read: into the
/// second-level cache; to write: the line is fetched for writing, which a store would otherwise wait for.
class Prefetch {
 public:
  Prefetch() = default;

  /// Fetches, in `pieces` pieces, the part of a tensor that belongs to units [first, first + count) of `units`, which
  /// lie in the order of its memory; only nearly that part where units do not share the tensor evenly. Null: fetches
  /// nothing.
  template <class T>
  Prefetch(const T* tensor, long values, long units, long first, long count, long pieces) {
    if (tensor == nullptr || first >= units) return;
    const long last = std::min(first + count, units);
    const auto at = [&](long unit) {
      return static_cast<long>(static_cast<double>(values) * static_cast<double>(unit) / static_cast<double>(units));
    };
    next_ = reinterpret_cast<const char*>(tensor + at(first));
    end_ = reinterpret_cast<const char*>(tensor + at(last));
    piece_ = ((end_ - next_) / std::max(1L, pieces) + line) / line * line;
  }

  void read() {
    for (const char* to = step(); next_ < to; next_ += line) __builtin_prefetch(next_, 0, 2);
  }
  void write() {
    for (const char* to = step(); next_ < to; next_ += line) __builtin_prefetch(next_, 1, 3);
  }

 private:
  static constexpr long line = 64;
  [[nodiscard]] const char* step() const { return end_ - next_ > piece_ ? next_ + piece_ : end_; }

  const char* next_ = nullptr;
  const char* end_ = nullptr;
  long piece_ = 0;
};

}  // namespace halograd::host
