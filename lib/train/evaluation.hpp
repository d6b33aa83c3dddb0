#pragma once

#include <functional>

#include "config/config.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "train/confusion.hpp"
#include "train/view_batches.hpp"

namespace halograd {

/// Loss and metric over a set of images.
struct Evaluation : ScoreSums {
  const Metric& metric;  ///< of the network's loss
  [[nodiscard]] double score() const { return metric.score(*this); }
};

/// How a loader deals a set to all ranks once, in order, in batches of training.batch images.
LoaderOptions evaluation_options(const RunConfig& config, const Communicator& comm);

/// Passes all that the loader deals to this rank through the network, without training. Where given, `go_on` is asked
/// `boundaries` times, after each batch and then without one (ranks may have different numbers of batches); the
/// evaluation ends, unfinished, where it says no. `confusion`, where given, gets what was taken for what. `views`: as
/// what a flood-filling network sees the images, of which the loss is the mean over the views; null for others.
Evaluation evaluate(const ExecutionSpace& exec, Network& network, const Replica& replica, Loader& loader,
                    ViewBatches* views, long boundaries = 0, const std::function<bool()>& go_on = {},
                    Confusion* confusion = nullptr);

/// Collective: the evaluation of all that the ranks evaluated.
Evaluation over_ranks(Evaluation part, const Communicator& comm);

}  // namespace halograd
