#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "kernels/rank_sums.hpp"
#include "kernels/shape.hpp"

namespace halograd {

class GroupWindow;

/// How the images of a value are divided among the ranks of a group: cut along each axis, a block per rank, or not at
/// all, so that every rank has the whole.
struct Division {
  std::array<std::vector<int>, 3> cuts{};  ///< of each axis: where blocks begin, and the extent; empty: not divided
  [[nodiscard]] bool divided() const { return !cuts[0].empty(); }
  bool operator==(const Division&) const = default;
};

/// Blocks along D, H, W, each the part of a rank: the last axis fastest.
using Blocks = std::array<int, 3>;

/// Blocks of like size; not divided where an axis is shorter than its blocks are many.
Division divide_evenly(const Blocks& blocks, const Shape& shape);
/// What a rank has.
Box box_of(const Blocks& blocks, const Division& division, const Shape& shape, int rank);

/// A group of ranks that hold one replica together: each computes a block of every activation (parallel.spatial). What
/// is too small to be divided, all of them compute, but for products over many channels, of which each has some
/// (parallel.channels).
///
/// Gradients follow one rule: a group's loss is the sum of what its ranks compute of it, each rank's gradients are
/// those of its own part, and parameters' are added up at the end. So a rank of a group of n that computes all of the
/// loss counts 1/n of it.
class Space {
 public:
  /// Collective. Throws CollectiveError where there are several blocks, but not as many as the group has ranks. The
  /// window is opened once all layers have said what they send.
  Space(std::unique_ptr<GroupWindow> window, const Blocks& blocks, bool divides_channels = false);
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] bool divides_channels() const { return divides_channels_; }

  [[nodiscard]] Division evenly(const Shape& shape) const;
  /// For the output of a layer whose input is divided so: cut in the same places as far as that can be.
  [[nodiscard]] Division following(const Division& input, const Shape& in, const Shape& out) const;
  [[nodiscard]] Box box_of(const Division& division, const Shape& shape, int rank) const;

  [[nodiscard]] GroupWindow& window() const { return *window_; }

  // Collective, once the window is open.
  /// Sums over the ranks of the group, in place; the same bits on all of them.
  void add(const ExecutionSpace& exec, Vector<double> numbers) const;
  void add(std::span<double> numbers) const;
  /// This rank's GroupWindow::shard of the values.
  [[nodiscard]] Vector<float> shard(const Vector<float>& values) const;
  /// Each rank's shard becomes the sum over the ranks of the group; the rest stays as it was.
  void add_shards(const ExecutionSpace& exec, const Vector<float>& values) const;
  /// All get the shards of the others.
  void gather(const ExecutionSpace& exec, Vector<float> values) const;

 private:
  std::unique_ptr<GroupWindow> window_;
  Blocks blocks_;
  bool divides_channels_;
};

}  // namespace halograd
