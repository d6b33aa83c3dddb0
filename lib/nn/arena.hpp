#pragma once

#include <cstddef>
#include <vector>

namespace halograd {

constexpr std::size_t arena_alignment = 64;  ///< bytes

/// A buffer that has to exist from time `birth` to time `death`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int birth = 0;
  int death = 0;
};

/// Offsets of the buffers in one arena, and its size.
struct ArenaPlan {
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
};

/// Places buffers so that no two that live at the same time overlap: largest first, each at the lowest offset that is
/// free for its whole life. Offsets are multiples of arena_alignment.
ArenaPlan plan_arena(const std::vector<Lifetime>& buffers);

}  // namespace halograd
