#pragma once

#include <string>

#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "nn/network.hpp"

namespace halograd {

/// Looks after each gradient computation whether loss and gradient are finite, and takes back what one that is not has
/// done to the replica: weights are not touched by it, batch-norm statistics are restored, the gradient becomes zero.
class FiniteGuard {
 public:
  FiniteGuard(Network& network, const Replica& replica);

  /// Before the gradient is computed.
  void keep(const ExecutionSpace& exec);
  /// Where ranks share a replica, collective over the group.
  [[nodiscard]] bool finite(const ExecutionSpace& exec, double loss) const;
  /// Takes the step back and says what was not finite: a layer, or an image with its index in the training set.
  std::string take_back(const ExecutionSpace& exec, const Batch& batch, const std::string& data,
                        std::uint64_t random_key);

 private:
  Network& network_;
  Replica replica_;
  Buffer<float> statistics_;  ///< as they were before the step
};

}  // namespace halograd
