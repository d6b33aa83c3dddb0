#pragma once

#include <cstdint>
#include <vector>

namespace halograd {

/// Positions begin to end-1.
struct Range {
  long begin = 0;
  long end = 0;
  [[nodiscard]] long size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// What rank `rank` of `ranks` takes of `count` things: count*rank/ranks to count*(rank+1)/ranks. Shares are
/// contiguous, disjoint, cover all, and differ by at most one.
Range share_of(long count, int rank, int ranks);

/// The same in proportion to `weights`, a positive number a rank: each rank at least one and at most `most` (ranks <=
/// count <= ranks * most), what is left over to the largest fractions (Hamilton's method). A function of the arguments
/// alone.
Range share_by_weight(long count, int rank, const std::vector<double>& weights, long most);

/// Steps of a training epoch: whole batches, and one of what is left unless that is fewer images than ranks.
long steps_of(long size, int global_batch, int ranks);

/// A permutation of 0..size-1, a function of (size, seed, epoch): Fisher-Yates on the counter generator. size < 2^32.
std::vector<long> epoch_permutation(long size, std::uint64_t seed, long epoch);

/// Positions `part` of an order of 0..size-1 for sets that are read in blocks, a function of the arguments alone: the
/// blocks, block_images neighbours each, are shuffled, and the images of `part` then within windows of window_blocks *
/// block_images. The first windows have 1, 2, 4 ... blocks, so that the first images do not wait for a whole one. Parts
/// that do not overlap share no image, and a block lies in two parts only where they meet.
std::vector<long> window_permutation(long size, long block_images, long window_blocks, std::uint64_t seed, long epoch,
                                     Range part);

/// A word to a number in 0..bound-1, bound <= 2^32, by Lemire's multiply-shift (ACM TOMACS 29(1), 2019) without
/// rejection: probabilities differ by less than 2^-32 of themselves.
std::uint64_t bounded(std::uint64_t word, std::uint64_t bound);

}  // namespace halograd
