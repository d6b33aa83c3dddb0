#include <array>
#include <cstdint>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/halo_mixer.hpp"
#include "kernels/mix.hpp"
#include "window/host_staging.hpp"
#include "window/port_window.hpp"

namespace halograd {
namespace {

DynamicTopology graph_of(const Topology& topology) {
  if (const DynamicTopology* dynamic = topology.dynamic()) return *dynamic;
  return {topology.kind(), topology.graph()};
}

/// Stochastic gradient push (Assran et al., ICML 2019). A rank keeps a number w beside its weights z; x = w z is what
/// is sent and added up, in shares that sum to 1 for each sender, so that the sums of x and of w over the ranks stay as
/// they are on any graph, and z = x / w goes to the mean. Gradients are taken at z, and applied to x.
///
/// With overlap, step k adds up what was sent in step k - 1: the exchange runs beside the gradient, and what is under
/// way between two steps belongs to the sums.
class PushSumAverager final : public Averager {
 public:
  explicit PushSumAverager(const AveragerContext& context)
      : rank_(context.comm.rank()),
        overlap_(context.averager.overlap),
        before_("halograd::before_update", context.length),
        staging_(context.length),
        window_(context.comm, graph_of(context.topology), context.length, context.first_step,
                transport_options(context.transport)),
        mixer_(context.length, static_cast<std::size_t>(window_.topology().most_in())) {
    // In the window's first step, what was under way when the checkpoint was written is sent again; else nothing.
    if (overlap_) sent_.assign(context.length, 0.0F);
  }

  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> /*gradient*/,
                     double /*share*/) override {
    Kokkos::deep_copy(exec, before_, weights);
    if (overlap_ && !sending_) {
      window_.put(step, HostVector<const float>(sent_.data(), sent_.size()), of_sums_[1]);
      if (step > 0) counted_before_ = window_.bytes_sent();  // by the run that this one goes on from
      sending_ = true;
    }
  }

  void after_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    // What the update has done to z is done to x: x = w z_before + (z - z_before).
    MixTerms biased;
    biased.count = 1;
    biased.weights[0] = w() - 1;
    biased.halos[0] = before_.data();
    mix(exec, biased, weights);
    overlap_ ? push_and_take_the_last(exec, step, weights) : push_and_take(exec, step, weights);
  }

  void before_local_update(const ExecutionSpace& exec, Vector<const float> weights) override {
    if (w() != 1) Kokkos::deep_copy(exec, before_, weights);
  }
  void after_local_update(const ExecutionSpace& exec, Vector<float> weights) override {
    if (w() == 1) return;
    MixTerms unbiased;  // z = z_before + (z - z_before) / w
    unbiased.self_weight = 1 / w();
    unbiased.count = 1;
    unbiased.weights[0] = 1 - 1 / w();
    unbiased.halos[0] = before_.data();
    mix(exec, unbiased, weights);
  }

  [[nodiscard]] std::vector<SavedState> state() override {
    std::vector<SavedState> state{{"push_sum_weights", std::span(of_sums_)}};
    if (overlap_) state.push_back({"push_sum_sent", std::span(sent_)});
    return state;
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent() - counted_before_; }
  std::vector<EdgeRecord> take_edges() override { return window_.take_edges(); }

 private:
  void push_and_take(const ExecutionSpace& exec, std::int64_t step, Vector<float> x) {
    window_.put(step, staging_.download(exec, x), w());
    window_.flush();
    take(exec, window_.wait(step), window_.topology().at(step)->weight(rank_), x);
    window_.release(step);
  }

  /// The window is a step ahead of the training: its first step carries what the steps before have left under way.
  void push_and_take_the_last(const ExecutionSpace& exec, std::int64_t step, Vector<float> x) {
    window_.flush();
    const HostVector<const float> now = staging_.download(exec, x);
    std::copy(now.data(), now.data() + now.size(), sent_.begin());
    of_sums_[1] = w();
    take(exec, window_.wait(step), window_.topology().at(step + 1)->weight(rank_), x);
    window_.release(step);
    window_.put(step + 1, HostVector<const float>(sent_.data(), sent_.size()), of_sums_[1]);
  }

  /// x becomes z of the next step: the own share and what has come, over the sum of their numbers.
  void take(const ExecutionSpace& exec, const std::vector<PortWindow::Halo>& halos, double own_share, Vector<float> x) {
    double sum = own_share * w();
    for (const PortWindow::Halo& halo : halos) sum += halo.weight * halo.number;
    terms_.clear();
    for (const PortWindow::Halo& halo : halos) terms_.push_back({halo.weight / sum, halo.values});
    if (terms_.empty()) {
      scale(exec, own_share / sum, x);
      exec.fence();
    } else {
      mixer_.mix(exec, own_share / sum, terms_, x);
    }
    w() = sum;
  }

  double& w() { return of_sums_[0]; }

  std::int64_t counted_before_ = 0;
  int rank_;
  bool overlap_, sending_ = false;
  std::array<double, 2> of_sums_{1, 0};  ///< the number w; the one that was sent last
  std::vector<float> sent_;              ///< with overlap: x as it was sent last
  Buffer<float> before_;
  HostStaging staging_;
  PortWindow window_;
  HaloMixer mixer_;
  std::vector<WeightedHalo> terms_;  // of one step
};

std::unique_ptr<Averager> make_push_sum(const AveragerContext& context) {
  return std::make_unique<PushSumAverager>(context);
}

}  // namespace

AveragerRow push_sum_row() {
  return {
      .name = "push_sum",
      .meaning = "weights of in-neighbours by push-sum, which takes any directed graph",
      .make = make_push_sum,
      .bytes_per_exchange = sends_weights,
      .exchanges = Exchange::weights,
      .graphs = Graphs::any,
      .of_nodes = false,
      .out_degree = true,
      .pace = always_lockstep,
      .always_under_way = true,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options = std::vector<AveragerOption>{{"overlap"}},
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
