#include "train/noise_scale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/loader.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "kernels/random.hpp"
#include "nn/precisions.hpp"
#include "optimizers/optimizer.hpp"
#include "optimizers/schedule.hpp"
#include "train/host_batch.hpp"
#include "train/model.hpp"

namespace halograd {
namespace {

/// What the sums over some batches say.
struct Estimate {
  double gradient_squared, variance;
};

/// `total_squared`: |sum of the gradients|^2; `squares`: the sum of their squared lengths.
Estimate estimate(double count, double batch, double total_squared, double squares) {
  const double small = squares / count, large = total_squared / (count * count);
  return {(count * large - small) / (count - 1), (small - large) * batch * count / (count - 1)};
}

}  // namespace

NoiseScaleSums::NoiseScaleSums(std::size_t length, int batch) : batch_(batch), squares_(least_batches, 0.0) {
  for (int group = 0; group < least_batches; ++group) groups_.emplace_back("halograd::gradient_sum", length);
}

void NoiseScaleSums::add(const ExecutionSpace& exec, Vector<const float> gradient) {
  const auto group = static_cast<std::size_t>(count_++ % least_batches);
  squares_[group] += squared_length(exec, gradient);
  MixTerms plus;
  plus.count = 1;
  plus.weights[0] = 1;
  plus.halos[0] = gradient.data();
  mix(exec, plus, groups_[group]);
  exec.fence();
}

NoiseScale NoiseScaleSums::result(const ExecutionSpace& exec) const {
  HALOGRAD_REQUIRE(count_ >= least_batches, "the gradient noise scale needs ", least_batches, " batches or more; ",
                   count_, " were given");
  const Buffer<float> total("halograd::gradient_sum", groups_.front().extent(0));
  double squares = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    MixTerms plus;
    plus.count = 1;
    plus.weights[0] = 1;
    plus.halos[0] = groups_[group].data();
    mix(exec, plus, total);
    squares += squares_[group];
  }
  exec.fence();
  const Estimate all = estimate(count_, batch_, squared_length(exec, total), squares);
  const double inverse = all.gradient_squared / all.variance;  // 1 / B, which does not run to infinity
  std::vector<double> inverses;
  double mean = 0, deviations = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const int left_out = (count_ - static_cast<int>(group) + least_batches - 1) / least_batches;
    const Estimate rest =
        estimate(count_ - left_out, batch_, squared_distance(exec, total, groups_[group]), squares - squares_[group]);
    inverses.push_back(rest.gradient_squared / rest.variance);
    mean += inverses.back() / least_batches;
  }
  for (const double each : inverses) deviations += (each - mean) * (each - mean);
  const double error = std::sqrt(deviations * (least_batches - 1) / least_batches);
  const auto scale_of = [](double one_over) {
    return one_over > 0 ? 1 / one_over : std::numeric_limits<double>::infinity();
  };
  return {scale_of(inverse), scale_of(inverse + 2 * error), scale_of(inverse - 2 * error), all.gradient_squared,
          all.variance};
}

NoiseScale measure_noise_scale(const RunConfig& config, int warm_up_steps) {
  HALOGRAD_REQUIRE(!config.flood_filling.on(),
                   "the gradient noise scale is measured of networks that see whole images; expected "
                   "flood_filling.view = 0");
  const auto data = open_dataset(config.data, Split::train, config.training.seed);
  LoaderOptions options;
  options.global_batch = config.training.batch;
  options.seed = config.training.seed;
  options.prefetch = config.data.prefetch;
  Loader loader(*data, config.data, options);
  const long batches = std::min<long>(most_noise_batches, data->size() / config.training.batch);
  HALOGRAD_REQUIRE(batches >= NoiseScaleSums::least_batches, "the gradient noise scale needs ",
                   NoiseScaleSums::least_batches, " batches or more, but the ", data->size(), " training images are ",
                   batches, " of training.batch = ", config.training.batch, "; choose a smaller batch");
  const auto network = build_model(config, *data, loader.largest_batch(), precision_named(config.training.precision));
  const auto optimizer = make_optimizer(config.optimizer, network->parameter_count());
  const Replica replica = network->make_replica(config.training.seed);
  const ExecutionSpace exec;
  long epoch = 0;
  std::uint64_t passes = 0;
  const auto compute_gradient = [&](const Batch& batch) {
    const std::uint64_t key = random_bits(config.training.seed, passes++);
    const LossSum sum = network->train(exec, replica, host_batch(&batch), key);
    HALOGRAD_REQUIRE(std::isfinite(sum.loss), "the loss of batch ", passes, " is not finite (", sum.loss,
                     "); a smaller optimizer.learning_rate may help");
  };
  loader.start_epoch(epoch);
  for (int step = 0; step < warm_up_steps; ++step) {
    const Batch* batch = loader.next();
    if (batch == nullptr) {
      loader.start_epoch(++epoch);
      batch = loader.next();
    }
    compute_gradient(*batch);
    const double rate =
        config.optimizer.learning_rate * schedule_factor(config.schedule, step, loader.steps(), config.training.epochs);
    optimizer->step(exec, rate, step + 1, 0, replica.parameters, replica.gradients);
  }
  NoiseScaleSums sums(network->parameter_count(), config.training.batch);
  loader.start_epoch(epoch + 1);  // whose batches are disjoint
  for (long i = 0; i < batches; ++i) {
    compute_gradient(*loader.next());
    sums.add(exec, replica.gradients);
  }
  return sums.result(exec);
}

}  // namespace halograd
