#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/random.hpp"
#include "optimizers/schedule.hpp"
#include "support/seconds.hpp"
#include "support/trace.hpp"
#include "train/host_batch.hpp"
#include "train/trainer.hpp"

namespace halograd {

void Trainer::share_by_speed() {
  const std::vector<double> speeds = comm_.gather(speed_.seconds > 0 ? speed_.images / speed_.seconds : 0);
  speed_ = {};
  const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
  if (*slowest <= 0) return;  // nothing was measured yet
  loader_->set_shares(speeds);
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const auto part = [&](auto at) {
    return std::to_string(std::lround(1000 * *at / sum)) + " (rank " + std::to_string(at - speeds.begin()) + ")";
  };
  report_.line("  shares of epoch " + std::to_string(epoch_ + 1) + " in thousandths of a batch: " + part(slowest) +
               " to " + part(fastest));
}

StepMetrics Trainer::train_step(const Batch& batch) {
  const trace::Span span("step", "train");
  StepMetrics row;
  const double waited = averager_->wait_seconds();
  const std::int64_t sent = averager_->bytes_sent();
  const double progress = progress_ ? progress_->seconds() : 0;
  rate_ =
      config_.optimizer.learning_rate * schedule_factor(config_.schedule, epoch_ * loader_->steps() + step_in_epoch_,
                                                        loader_->steps(), config_.training.epochs);
  const std::uint64_t step_key = random_bits(config_.training.seed, static_cast<std::uint64_t>(step_));

  const double begin = seconds_now();
  averager_->before_gradient(exec_, step_, replica_.parameters);
  const double exchanged = seconds_now();
  const double early_wait = averager_->wait_seconds() - waited;
  const std::uint64_t random_key = random_bits(step_key, static_cast<std::uint64_t>(comm_.rank()));
  guard_->keep(exec_);
  const double share = static_cast<double>(batch.size) / batch.global_size;
  // The mean of the replicas is to move by the gradient of the whole batch, sum_i share_i g_i.
  const bool uneven = config_.training.shares == "measured" && !averager_->shares_gradients();
  const double own_rate = uneven ? rate_ * share * comm_.ranks() : rate_;
  const LossSum loss = compute_gradient(batch, random_key, share);
  injector_.slow_down(comm_.rank(), seconds_now() - exchanged);
  const bool finite = guard_->finite(exec_, loss.loss);
  if (!finite) leave_out(batch, random_key);
  const double computed = seconds_now();
  update(own_rate, finite, share);
  const double updated = seconds_now();
  ++step_;

  row.loss = loss.loss / batch.size;
  row.skipped = finite ? 0 : 1;
  row.averaging_period = averager_->period();
  row.learning_rate = rate_;
  row.wait_seconds = averager_->wait_seconds() - waited;
  row.compute_seconds = computed - exchanged;
  row.update_seconds = (exchanged - begin - early_wait) + (updated - computed - (row.wait_seconds - early_wait));
  row.bytes_sent = averager_->bytes_sent() - sent;
  if (progress_) row.progress_seconds = progress_->seconds() - progress;
  return row;
}

void Trainer::update(double rate, bool finite, double share) {
  const trace::Span span("update", "train");
  // With shared gradients all ranks make the same step, whoever's part is missing.
  const bool steps = finite || averager_->shares_gradients();
  const auto optimize = [&](std::size_t begin, std::size_t length) {
    if (!steps) return;
    optimizer_->step(exec_, rate, step_ + 1, begin, slice(replica_.parameters, begin, length),
                     slice(replica_.gradients, begin, length));
  };
  averager_->update(exec_, step_, replica_.parameters, replica_.gradients, finite ? share : 0, std::ref(optimize));
  exec_.fence();
}

void Trainer::leave_out(const Batch& batch, std::uint64_t random_key) {
  const std::string where =
      guard_->take_back(exec_, batch, config_.data.path.empty() ? config_.data.format : config_.data.path, random_key);
  ++skipped_;
  if (config_.training.non_finite == "skip") return;
  stop_->not_finite("step " + std::to_string(step_ + 1) + ", rank " + std::to_string(comm_.rank()) + ": " + where +
                    " is not finite (a smaller optimizer.learning_rate or a longer schedule.warmup_epochs may help; "
                    "training.non_finite = \"skip\" goes on without such updates)");
}

LossSum Trainer::compute_gradient(const Batch& batch, std::uint64_t random_key, double share) {
  const trace::Span span("compute", "train");
  Network::GradientReady ready;
  if (!network_->replays_steps()) {
    ready = [this, share](std::size_t from) { averager_->gradient_ready(exec_, replica_.gradients, from, share); };
  }
  const LossSum loss =
      network_->train(exec_, replica_, host_batch(&batch), random_key, ready, host_batch(loader_->ahead()));
  if (network_->replays_steps() && !network_->replay_refusal().empty()) {
    report_.line("  steps could not be recorded, and go on kernel by kernel: " + network_->replay_refusal());
    network_->replay_steps(false);
  }
  return loss;
}

}  // namespace halograd
