#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch_plan.hpp"
#include "data/dataset.hpp"

namespace halograd {

/// Deals a Dataset to ranks, batch by batch, and normalises it: (value - mean) / standard deviation per channel.
///
/// Training: step s takes n = min(global_batch, what is left) images, of which rank r of P gets those from n*r/P to
/// n*(r+1)/P; shards are disjoint, and together they cover the set (a last step of fewer images than ranks is dropped).
/// Full shuffle: epoch e is one permutation of the set, a function of (seed, e) alone, dealt step by step, so that the
/// union over ranks is the same for every P. Window shuffle: the set's blocks are permuted, each rank gets a piece of
/// that order, a function of (seed, e, r, P), and shuffles it in windows (window_permutation). data.shuffle = "auto"
/// takes the full shuffle where the set is in memory. Ring: batches stay as epoch 0's full shuffle deals them, and that
/// of rank r and epoch e is rank r - 1's of epoch e - 1: passed on along the ring of ranks, so that each rank has seen
/// all of them after P epochs (the sample shuffle of GossipGraD, Daily et al., 2018). Images are padded by zeros before
/// they are normalised, cropped and mirrored as a function of (seed, epoch, image), whichever rank holds them.
///
/// Lots (LoaderOptions::lots): lot s*P + r is what rank r would get in step s; numbers go on from epoch to epoch. Any
/// rank may be given any lot. Full shuffle: each lot by itself. Window shuffle: lots_at_once() of them are one piece of
/// the epoch's order by blocks, shuffled in windows, so that whoever has all of them reads each of their blocks once.
///
/// Evaluation: rank r reads images N*r/P to N*(r+1)/P of the set in order, in batches of ceil(global_batch/P); over all
/// ranks every image is read exactly once.
///
/// With prefetch, a thread prepares batches ahead; an error there is thrown by next() at the step it belongs to. The
/// dataset must outlive the loader.
class Loader {
 public:
  /// Throws Error where a training batch is larger than the set or smaller than the number of ranks, and where mean,
  /// standard_deviation or pad_crop do not fit the images.
  Loader(const Dataset& dataset, const DataConfig& config, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Steps an epoch: the same on all ranks in training, of this rank alone in evaluation (it may differ by one, and be
  /// 0).
  [[nodiscard]] long steps() const;
  [[nodiscard]] int ranks() const;
  /// Whether the order of the images is one of the number of ranks too.
  [[nodiscard]] bool deals_by_ranks() const;
  /// Largest Batch::size that next() returns on this rank.
  [[nodiscard]] int largest_batch() const;
  /// From the next epoch on, steps are dealt in proportion to these numbers, one per rank, as far as each rank gets an
  /// image and none more than LoaderOptions::most (share_by_weight). The same on all ranks.
  void set_shares(std::vector<double> weights);
  /// Where lots are dealt: how many an epoch has, and how many a rank should take at a time.
  [[nodiscard]] long lots() const { return steps() * ranks(); }
  [[nodiscard]] long lots_at_once() const;
  /// From now on next() returns the lots whose numbers `draw` gives, until it gives none. `draw` is called one batch
  /// ahead, by the thread that prepares it where there is one; what it throws is thrown by next().
  void start_dealing(std::function<std::optional<long>()> draw);
  /// Starts an epoch at one of its steps (resume). May be called at any time; what is left of the epoch before is
  /// dropped.
  void start_epoch(long epoch, long first_step = 0);
  /// Ends the thread that prepares batches, until an epoch or the dealing is started anew: `draw` is not called again.
  void stop();
  /// The next batch, valid until the next call of next() or start_epoch(); nullptr at the end of the epoch.
  const Batch* next();
  /// The batch that next() will return, where it lies ready, valid as long as that; else nullptr. Does not wait.
  const Batch* ahead();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace halograd
