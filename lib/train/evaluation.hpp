#pragma once

#include <functional>
#include <string>

#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "kernels/types.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"

namespace halograd {

/// What a network is to make of this set.
Target target_of(const Dataset& data, const LossConfig& loss);

/// Loss and metric over a set of images.
struct Evaluation {
  std::string metric;  ///< metric_of the network's loss
  double loss_sum = 0, images = 0;
  double correct = 0, labels = 0;  ///< labels predicted, of all
  double overlap = 0, either = 0;  ///< binary_cross_entropy: labels that are 1 and predicted so; that are either
  [[nodiscard]] double loss() const { return images > 0 ? loss_sum / images : 0; }
  /// accuracy and iou: 0 to 1, the larger the better; error: the root of the mean squared error.
  [[nodiscard]] double score() const;
};

/// Passes all that the loader deals to this rank through the network, without training. Where given, `go_on` is asked
/// `boundaries` times, after each batch and then without one (ranks may have different numbers of batches); the
/// evaluation ends, unfinished, where it says no.
Evaluation evaluate(const ExecutionSpace& exec, Network& network, const Replica& replica, Loader& loader,
                    long boundaries = 0, const std::function<bool()>& go_on = {});

/// Collective: the evaluation of all that the ranks evaluated.
Evaluation over_ranks(Evaluation part, const Communicator& comm);

}  // namespace halograd
