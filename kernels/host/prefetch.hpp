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

  /// A piece for a loop of that many iterations, each of which fetches at `at` and goes on by `step` bytes. Evenly over
  /// the loop is better than before it: the few buffers of the first-level cache serve what the loop reads, too.
  struct Pace {
    const char* at;
    long step;
  };
  Pace over(long iterations) {
    const char* const from = next_;
    next_ = step();
    return {from, (next_ - from + iterations - 1) / std::max(1L, iterations)};
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

  static constexpr char nothing = 0;
  const char* next_ = &nothing;  // a place that can be fetched, however often
  const char* end_ = &nothing;
  long piece_ = 0;
};

}  // namespace halograd::host
