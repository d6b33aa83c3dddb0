#include <algorithm>
#include <memory>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/consensus_control.hpp"
#include "kernels/mix.hpp"
#include "kernels/random.hpp"
#include "mpi/wait.hpp"
#include "window/all_reduce.hpp"
#include "window/host_staging.hpp"

namespace halograd {
namespace {

/// Local SGD (Stich, 2019): another averager only in every H-th step, which it counts as its own. Every G steps the
/// exact mean of all replicas takes their place (Gossip-PGA, Chen et al., 2021).
class PeriodicAverager final : public Averager {
 public:
  explicit PeriodicAverager(const AveragerContext& context)
      : config_(context.averager),
        transport_(context.transport),
        topology_(context.topology),
        context_{config_,
                 transport_,
                 topology_,
                 context.comm,
                 context.length,
                 context.first_step / config_.every,
                 context.optimizer_state,
                 context.optimizer_step,
                 context.restart_optimizer,
                 context.halo_memory,
                 context.first_epoch,
                 context.group},
        comm_(context.comm),
        staging_(context.length),
        round_(context_.first_step),
        period_(config_.every),
        due_((round_ + 1) * config_.every - 1),
        averages_momentum_(averages_momentum(config_)) {
    if (config_.consensus_target > 0) {
      control_ =
          std::make_unique<ConsensusControl>(context.comm, context.group, config_.consensus_target, config_.every);
      before_ = Buffer<float>("halograd::before_update", context.length);
      context_.first_step = round_ = 0;
      period_ = 1;
      due_ = context.first_step;
    }
    inner_ = row_of(config_).make(context_);
  }

  void before_gradient(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    exchanges_ = step == due_;
    if (!exchanges_) return;
    if (control_ && combines_first(config_)) project(exec, weights);
    inner_->before_gradient(exec, round_, weights);
  }
  void gradient_ready(const ExecutionSpace& exec, Vector<const float> gradient, std::size_t begin,
                      double share) override {
    if (exchanges_) inner_->gradient_ready(exec, gradient, begin, share);
  }
  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights, Vector<float> gradient,
                     double share) override {
    if (!exchanges_) return inner_->before_local_update(exec, weights);
    inner_->before_update(exec, round_, weights, gradient, share);
    if (control_) Kokkos::deep_copy(exec, before_, weights);
  }
  void after_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    if (exchanges_) {
      if (control_) choose_period(exec, weights);
      inner_->after_update(exec, round_, weights);
      ++round_;
      due_ = step + period_;
    } else {
      inner_->after_local_update(exec, weights);
    }
    if (config_.global_every > 0 && (step + 1) % config_.global_every == 0) {
      average_exactly(exec, weights);
      if (!averages_momentum_) return;
      for (const Vector<float>& state : context_.optimizer_state) average_exactly(exec, state);
    }
  }

  bool settle(const ExecutionSpace& exec, Vector<float> weights) override { return inner_->settle(exec, weights); }
  bool after_epoch(const ExecutionSpace& exec, std::int64_t epochs, Vector<float> weights, double score) override {
    return inner_->after_epoch(exec, epochs, weights, score);
  }

  [[nodiscard]] std::int64_t period() const override { return inner_->period() * period_; }

  [[nodiscard]] std::vector<SavedState> state() override {
    inner_state_ = inner_->state();
    std::vector<SavedState> states = inner_state_;
    if (control_) {
      control_->finish();
      position_ = {round_, due_, period_};
      states.push_back({"period", std::span(position_)});
      states.push_back({"consensus", control_->measured()});
    }
    return states;
  }

  /// The inner averager may do something else in each of its steps, so it must begin at the right one.
  void restored() override {
    if (!control_) return inner_->restored();
    round_ = position_[0];
    due_ = position_[1];
    period_ = position_[2];
    std::vector<std::vector<std::byte>> kept;
    for (const SavedState& state : inner_state_) {
      const auto bytes = bytes_of(state.values);
      kept.emplace_back(bytes.begin(), bytes.end());
    }
    inner_.reset();
    context_.first_step = round_;
    inner_ = row_of(config_).make(context_);
    const std::vector<SavedState> states = inner_->state();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::copy(kept[i].begin(), kept[i].end(), bytes_of(states[i].values).begin());
    }
    inner_->restored();
  }

  [[nodiscard]] double wait_seconds() const override {
    return inner_->wait_seconds() + wait_seconds_ + (control_ ? control_->wait_seconds() : 0);
  }
  [[nodiscard]] std::int64_t bytes_sent() const override {
    return inner_->bytes_sent() + bytes_sent_ + (control_ ? control_->bytes_sent() : 0);
  }
  std::vector<EdgeRecord> take_edges() override { return inner_->take_edges(); }

 private:
  void project(const ExecutionSpace& exec, Vector<const float> weights) {
    projections_ = sketch(exec, random_bits(0, static_cast<std::uint64_t>(round_)), weights);
  }

  void choose_period(const ExecutionSpace& exec, Vector<const float> weights) {
    if (!combines_first(config_)) project(exec, weights);
    period_ = control_->next_period(period_, projections_, squared_distance(exec, weights, before_));
  }

  void average_exactly(const ExecutionSpace& exec, Vector<float> values) {
    const PolitePause time;
    comm_.mean(staging_.download_to_change(exec, values));
    staging_.upload(exec, values);
    wait_seconds_ += time.seconds();
    bytes_sent_ += exact_average_bytes(comm_.ranks(), values.extent(0));
  }

  AveragerConfig config_;
  CommConfig transport_;
  Topology topology_;
  AveragerContext context_;  // of the inner averager
  Communicator comm_;
  HostStaging staging_;
  std::unique_ptr<ConsensusControl> control_;
  std::array<double, sketch_width> projections_{};
  Buffer<float> before_;  // weights before the optimizer's step
  std::int64_t round_;    // exchanges done
  std::int64_t period_, due_;
  bool exchanges_ = false, averages_momentum_;
  std::array<std::int64_t, 3> position_{};
  std::vector<SavedState> inner_state_;  // filled by a restore: asking for it again may write over what was restored
  std::unique_ptr<Averager> inner_;
  double wait_seconds_ = 0;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace

std::int64_t exact_average_bytes(int ranks, std::size_t length) {
  return 2 * all_reduce_bytes(ranks, length);  // summed in double
}

std::unique_ptr<Averager> make_periodic_averager(const AveragerContext& context) {
  return std::make_unique<PeriodicAverager>(context);
}

}  // namespace halograd
