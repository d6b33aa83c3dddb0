#include "nn/arena.hpp"

#include <algorithm>
#include <numeric>

namespace halograd {

ArenaPlan plan_arena(const std::vector<Lifetime>& buffers) {
  const auto padded = [&](std::size_t i) {
    return (buffers[i].bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
  };
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    if (buffers[i].bytes == 0) continue;
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (buffers[other].death < buffers[i].birth || buffers[i].death < buffers[other].birth) continue;
      if (offset + padded(i) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + padded(other));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + padded(i));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  i);
  }
  return plan;
}

}  // namespace halograd
