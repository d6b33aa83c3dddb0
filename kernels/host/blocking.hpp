#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/host/conv.hpp"
#include "kernels/host/microkernel.hpp"
#include "kernels/label.hpp"

/// How the host convolution cuts its work: columns into register tiles, rows over tasks, the workspace into pieces.
namespace halograd::host {

/// The columns of a matrix product in blocks of one to largest_tile_packs packs, as even as can be.
template <class T>
struct ColumnBlocks {
  int columns;
  [[nodiscard]] int packs() const { return (columns + lanes<T> - 1) / lanes<T>; }
  [[nodiscard]] int padded() const { return packs() * lanes<T>; }
  [[nodiscard]] int count() const { return (packs() + largest_tile_packs - 1) / largest_tile_packs; }
  [[nodiscard]] int packs_of(int block) const { return packs() / count() + (block < packs() % count() ? 1 : 0); }
  [[nodiscard]] int begin(int block) const {
    return (block * (packs() / count()) + std::min(block, packs() % count())) * lanes<T>;
  }
};

/// Hands out aligned pieces of the workspace; with no workspace it only counts.
class Scratch {
 public:
  explicit Scratch(std::byte* base) : base_(base) {}
  template <class T>
  T* take(long count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
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

/// A task's part of so many units.
struct Share {
  long begin, end;
  Share(long total, int task, int tasks) : begin(total * task / tasks), end(total * (task + 1) / tasks) {}
};

/// compute_tile of that many packs.
template <class Tile>
void run_tile(int packs, const Tile& tile) {
  switch (packs) {
    case 1:
      return compute_tile<1>(tile);
    case 2:
      return compute_tile<2>(tile);
    default:
      break;
  }
  if constexpr (largest_tile_packs > 2) return packs == 3 ? compute_tile<3>(tile) : compute_tile<4>(tile);
}

/// Bytes of scratch: of conv_forward and conv_backward_data, and of conv_backward_weights.
template <class T>
std::size_t gather_workspace(const ConvShape& shape);
template <class T>
std::size_t weights_workspace(const ConvShape& shape);

}  // namespace halograd::host
