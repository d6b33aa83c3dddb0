#include "train/evaluation.hpp"

namespace halograd {

Evaluation evaluate(const ExecutionSpace& exec, Network& network, const Replica& replica, Loader& loader) {
  Evaluation sum;
  loader.start_epoch(0);
  while (const Batch* batch = loader.next()) {
    const LossSum part = network.evaluate(exec, replica, {batch->size, batch->images.data(), batch->labels.data()});
    sum.loss_sum += part.loss;
    sum.correct += static_cast<double>(part.correct);
    sum.images += batch->size;
  }
  return sum;
}

}  // namespace halograd
