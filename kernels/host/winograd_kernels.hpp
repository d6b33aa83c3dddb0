#pragma once

#include <algorithm>

#include "kernels/host/winograd_cut.hpp"

namespace halograd::host {

/// How a product sees the kernels: as they are, columns K and depth C; or columns C and depth K, turned by half a turn
/// or not.
enum class KernelView { plain, turned, transposed };

/// A block of columns and values [begin, end) of the depth, at one slice of the kernel.
struct KernelPart {
  int slice_tap;
  int first_column, packs;
  int begin, end;
};

/// G g G^T of a part of the weights, to (plane, value from `begin` on, column in block), planes `pitch` values apart.
template <int r, class T>
void transform_kernels(const ConvShape& shape, const T* all_weights, KernelView view, const KernelPart& part, T* to,
                       long pitch) {
  constexpr int taps = r * r;
  const auto [slice_tap, first_column, packs, begin, end] = part;
  const bool turned = view == KernelView::turned;
  const int width = packs * lanes<T>;
  const long tap_pitch = static_cast<long>(shape.channels) * shape.filters;
  const T* weights = all_weights + (turned ? shape.kernel[0] - 1 - slice_tap : slice_tap) * taps * tap_pitch;
  for (int v = 0; v < packs; ++v) {
    const int column = first_column + v * lanes<T>;
    const int count = std::min(lanes<T>, (view == KernelView::plain ? shape.filters : shape.channels) - column);
    if (view == KernelView::plain) {
      const LaneMask mask = first_lanes<T>(count);
      for (int d = begin; d < end; ++d) {
        const T* from = weights + static_cast<long>(d) * shape.filters + column;
        for (int tap = 0; tap < taps; ++tap) __builtin_prefetch(from + tap * tap_pitch + 8L * shape.filters);
        transform_kernel<r, T>([&](int tap) { return load_lanes<T>(from + tap * tap_pitch, mask); },
                               to + static_cast<long>(d - begin) * width + v * lanes<T>, pitch);
      }
      continue;
    }
    alignas(64) T block[taps][lanes<T>][lanes<T>] = {};  // of C and K, transposed
    for (int d = begin; d < end; d += lanes<T>) {
      const int depths = std::min(lanes<T>, end - d);
      for (int tap = 0; tap < taps; ++tap) {
        const T* from =
            weights + (turned ? taps - 1 - tap : tap) * tap_pitch + static_cast<long>(column) * shape.filters + d;
        for (int c = 0; c < count; ++c) {
          __builtin_prefetch(from + static_cast<long>(c) * shape.filters + lanes<T>);  // rows lie far apart
          for (int k = 0; k < depths; ++k) block[tap][k][c] = from[static_cast<long>(c) * shape.filters + k];
        }
      }
      for (int k = 0; k < depths; ++k) {
        transform_kernel<r, T>([&](int tap) { return load(block[tap][k]); },
                               to + static_cast<long>(d - begin + k) * width + v * lanes<T>, pitch);
      }
    }
  }
}

}  // namespace halograd::host
