#include "data/sharding.hpp"

#include <numeric>
#include <utility>

#include "kernels/random.hpp"

namespace halograd {

Range share_of(long count, int rank, int ranks) {
  // Without the product count*rank, so that no count overflows.
  const long whole = count / ranks;
  const long left = count % ranks;
  return {whole * rank + left * rank / ranks, whole * (rank + 1) + left * (rank + 1) / ranks};
}

long steps_of(long size, int global_batch, int ranks) {
  return size / global_batch + (size % global_batch >= ranks ? 1 : 0);
}

std::vector<long> epoch_permutation(long size, std::uint64_t seed, long epoch) {
  constexpr std::uint64_t stream = 0x73687566666c65;  // "shuffle": draws of its own
  const std::uint64_t key = random_bits(random_bits(seed, stream), static_cast<std::uint64_t>(epoch));
  std::vector<long> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0L);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[bounded(random_bits(key, i), i)]);
  return order;
}

std::uint64_t bounded(std::uint64_t word, std::uint64_t bound) {
  const std::uint64_t high = (word >> 32U) * bound;
  const std::uint64_t low = ((word & 0xffffffffU) * bound) >> 32U;
  return (high + low) >> 32U;
}

}  // namespace halograd
