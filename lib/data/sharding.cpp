#include "data/sharding.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/random.hpp"

namespace halograd {
namespace {

std::uint64_t shuffle_key(std::uint64_t seed, long epoch) {
  constexpr std::uint64_t stream = 0x73687566666c65;  // "shuffle": draws of its own
  return random_bits(random_bits(seed, stream), static_cast<std::uint64_t>(epoch));
}

/// Fisher-Yates on positions begin to end-1.
void shuffle(std::vector<long>& order, std::size_t begin, std::size_t end, std::uint64_t key) {
  for (std::size_t i = end - begin; i > 1; --i)
    std::swap(order[begin + i - 1], order[begin + bounded(random_bits(key, i), i)]);
}

}  // namespace

Range share_of(long count, int rank, int ranks) {
  // Without the product count*rank, so that no count overflows.
  const long whole = count / ranks;
  const long left = count % ranks;
  return {whole * rank + left * rank / ranks, whole * (rank + 1) + left * (rank + 1) / ranks};
}

Range share_by_weight(long count, int rank, const std::vector<double>& weights, long most) {
  const std::size_t ranks = weights.size();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> ideal(ranks);
  std::vector<long> sizes(ranks);
  long left = count;
  for (std::size_t i = 0; i < ranks; ++i) {
    ideal[i] = static_cast<double>(count) * weights[i] / sum;
    sizes[i] = std::clamp(static_cast<long>(ideal[i]), 1L, most);
    left -= sizes[i];
  }
  while (left != 0) {  // one to whom it does most good, or from whom it does least harm
    const long one = left > 0 ? 1 : -1;
    std::size_t best = ranks;
    for (std::size_t i = 0; i < ranks; ++i) {
      if (one > 0 ? sizes[i] >= most : sizes[i] <= 1) continue;
      const auto lack = [&](std::size_t k) {
        return static_cast<double>(one) * (ideal[k] - static_cast<double>(sizes[k]));
      };
      if (best == ranks || lack(i) > lack(best)) best = i;
    }
    sizes[best] += one;
    left -= one;
  }
  const long begin = std::accumulate(sizes.begin(), sizes.begin() + rank, 0L);
  return {begin, begin + sizes[static_cast<std::size_t>(rank)]};
}

long steps_of(long size, int global_batch, int ranks) {
  return size / global_batch + (size % global_batch >= ranks ? 1 : 0);
}

std::vector<long> epoch_permutation(long size, std::uint64_t seed, long epoch) {
  std::vector<long> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0L);
  shuffle(order, 0, order.size(), shuffle_key(seed, epoch));
  return order;
}

std::vector<long> window_permutation(long size, long block_images, long window_blocks, std::uint64_t seed, long epoch,
                                     Range part) {
  std::vector<long> order;
  order.reserve(static_cast<std::size_t>(part.size()));
  long position = 0;
  for (const long block : epoch_permutation((size + block_images - 1) / block_images, seed, epoch)) {
    const long first = block * block_images, images = std::min(size - first, block_images);
    const long begin = std::max(part.begin, position), end = std::min(part.end, position + images);
    for (long at = begin; at < end; ++at) order.push_back(first + at - position);
    position += images;
    if (position >= part.end) break;
  }
  std::size_t end = 0;
  for (long blocks = 1; end < order.size(); blocks = std::min(2 * blocks, window_blocks)) {
    const std::size_t begin = end;
    end = std::min(order.size(), begin + static_cast<std::size_t>(blocks * block_images));
    constexpr std::uint64_t stream = 0x77696e646f77;  // "window"
    const std::uint64_t start = static_cast<std::uint64_t>(part.begin) + begin;
    const std::uint64_t key = random_bits(random_bits(shuffle_key(seed, epoch), stream), start);
    shuffle(order, begin, end, key);
  }
  return order;
}

std::uint64_t bounded(std::uint64_t word, std::uint64_t bound) {
  const std::uint64_t high = (word >> 32U) * bound;
  const std::uint64_t low = ((word & 0xffffffffU) * bound) >> 32U;
  return (high + low) >> 32U;
}

}  // namespace halograd
