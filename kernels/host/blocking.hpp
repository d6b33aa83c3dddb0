#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/host/conv.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/label.hpp"

/// How the host convolution cuts its work: columns into register tiles, rows over tasks, the workspace into pieces.
namespace halograd::host {

/// Rounded up to whole packs.
template <class T>
constexpr int whole_packs(int count) {
  return (count + lanes<T> - 1) / lanes<T> * lanes<T>;
}

/// The columns of a matrix product in blocks of one to `most` packs, as even as can be. What is left over
/// is a half pack of the last block where that is enough for it.
template <class T>
struct ColumnBlocks {
  explicit ColumnBlocks(int count, int most = largest_tile_packs) : columns(count) {
    const int rest = columns % lanes<T>;
    half = has_half_packs && rest > 0 && rest <= half_lanes<T>;
    packs = columns / lanes<T> + (rest > 0 && !half ? 1 : 0);
    blocks = (packs + (half ? 1 : 0) + most - 1) / most;
  }
  [[nodiscard]] int count() const { return blocks; }
  [[nodiscard]] int padded() const { return packs * lanes<T> + (half ? half_lanes<T> : 0); }
  [[nodiscard]] TileWidth width(int block) const {
    return {packs / blocks + (block < packs % blocks ? 1 : 0), half && block == blocks - 1};
  }
  [[nodiscard]] int begin(int block) const {
    return (block * (packs / blocks) + std::min(block, packs % blocks)) * lanes<T>;
  }

  /// Whether all of a block's columns are there.
  [[nodiscard]] bool whole(int block) const { return begin(block) + columns_of<T>(width(block)) <= columns; }

  int columns, packs, blocks;
  bool half;
};

/// Hands out aligned pieces of the workspace; with no workspace it only counts.
class Scratch {
 public:
  explicit Scratch(std::byte* base) : base_(base) {}
  template <class T>
  T* take(long count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pieces may hold pointers
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

/// Tasks that run at a time.
inline int concurrency() {
  return std::max(1, static_cast<int>(Exec().concurrency()));
}

/// Calls function(task) for each task, in parallel; fences.
template <class Function>
void parallel_tasks(const Exec& exec, const char* name, int tasks, const Function& function) {
  Kokkos::parallel_for(label(name), Kokkos::RangePolicy<Exec>(exec, 0, tasks), [&](const int task) { function(task); });
  exec.fence();
}

/// A task's part of a number of units.
struct Share {
  long begin, end;
  Share(long total, int task, int tasks) : begin(total * task / tasks), end(total * (task + 1) / tasks) {}
};

/// sum[i] = partial[i] + partial[pitch + i] + ... over `parts` parts, in order; sum may be partial.
template <class T>
void add_parts(const Exec& exec, const T* partial, int parts, long pitch, long length, T* sum) {
  const int tasks = concurrency();
  parallel_tasks(exec, "halograd::conv_add_parts", tasks, [&](int task) {
    const Share share(length, task, tasks);
    if (sum != partial) std::copy(partial + share.begin, partial + share.end, sum + share.begin);
    for (int part = 1; part < parts; ++part) {
      const T* const from = partial + part * pitch;
      for (long i = share.begin; i < share.end; ++i) sum[i] += from[i];
    }
  });
}

}  // namespace halograd::host
