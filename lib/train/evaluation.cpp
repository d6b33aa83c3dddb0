#include "train/evaluation.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/region.hpp"
#include "train/host_batch.hpp"

namespace halograd {

LoaderOptions evaluation_options(const RunConfig& config, const Communicator& comm) {
  LoaderOptions options;
  options.rank = comm.rank();
  options.ranks = comm.ranks();
  options.training = false;
  options.global_batch = std::max(config.training.batch, comm.ranks());
  options.prefetch = config.data.prefetch;
  return options;
}

Evaluation evaluate(const ExecutionSpace& exec, Network& network, const Replica& replica, Loader& loader,
                    ViewBatches* views, long boundaries, const std::function<bool()>& go_on, Confusion* confusion) {
  const Region region("evaluate");
  Evaluation sum{{}, metric_of(network.target().loss.name)};
  loader.start_epoch(0);
  std::vector<float> scores;
  const auto count = [&](const LossSum& part, const Batch& batch) {
    sum.loss_sum += part.loss;
    sum.inputs += batch.size;
    sum.correct += static_cast<double>(part.correct);
    sum.labels += static_cast<double>(batch.size * network.target().labels_per_image);
    sum.overlap += static_cast<double>(part.overlap);
    sum.either += static_cast<double>(part.either);
  };
  const auto add_whole = [&](const Batch& batch) {
    if (confusion != nullptr) scores.resize(static_cast<std::size_t>(batch.size * network.output().values()));
    const LossSum part = network.evaluate(exec, replica, host_batch(&batch), host_batch(loader.ahead()), scores);
    if (confusion != nullptr) confusion->add(batch.labels, scores);
    count(part, batch);
  };
  const auto add_views = [&](const Batch& batch) {
    views->show(batch, [&](const Batch& seen, std::span<float> logits) {
      const LossSum part = network.evaluate(exec, replica, host_batch(&seen), {}, logits, Network::Read::outputs);
      if (confusion != nullptr) {
        scores.assign(logits.begin(), logits.end());
        for (float& score : scores) score = 1 / (1 + std::exp(-score));
        confusion->add(seen.labels, scores);
      }
      count(part, seen);
      return true;
    });
  };
  const auto add = [&](const Batch& batch) {
    sum.images += batch.size;
    views == nullptr ? add_whole(batch) : add_views(batch);
  };
  const long batches = std::max(boundaries, loader.steps());
  for (long boundary = 0; boundary < batches; ++boundary) {
    if (const Batch* batch = loader.next()) add(*batch);
    if (go_on && !go_on()) break;
  }
  return sum;
}

Evaluation over_ranks(Evaluation part, const Communicator& comm) {
  for (double* sum :
       {&part.loss_sum, &part.inputs, &part.images, &part.correct, &part.labels, &part.overlap, &part.either}) {
    *sum = comm.sum(*sum);
  }
  return part;
}

}  // namespace halograd
