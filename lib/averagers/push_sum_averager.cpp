#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/halo_mixer.hpp"
#include "kernels/mix.hpp"
#include "window/host_staging.hpp"
#include "window/mail_window.hpp"
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
class PushSumAverager : public Averager {
 public:
  explicit PushSumAverager(const AveragerContext& context)
      : before_("halograd::before_update", context.length), staging_(context.length) {}

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

 protected:
  double& w() { return of_sums_[0]; }

  std::array<double, 2> of_sums_{1, 0};  ///< the number w; the one that was sent last
  Buffer<float> before_;
  HostStaging staging_;
};

/// Exactly what the in-neighbours have sent in the same step. With overlap, step k adds up what was sent in step k - 1:
/// the exchange runs beside the gradient, and what is under way between two steps belongs to the sums.
class SynchronousPushSumAverager final : public PushSumAverager {
 public:
  explicit SynchronousPushSumAverager(const AveragerContext& context)
      : PushSumAverager(context),
        rank_(context.comm.rank()),
        overlap_(context.averager.overlap),
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

  std::int64_t counted_before_ = 0;
  int rank_;
  bool overlap_, sending_ = false;
  std::vector<float> sent_;  ///< with overlap: x as it was sent last
  PortWindow window_;
  HaloMixer mixer_;
  std::vector<WeightedHalo> terms_;  // of one step
};

/// Whatever has come, from ranks that make their steps in their own time (Assran and Rabbat, Asynchronous Gradient
/// Push, IEEE Transactions on Automatic Control, 2020). A message is a replica z_j and a mass m_j, a part of its
/// sender's w; its receiver takes the mean by mass, z_i <- (w_i z_i + sum_j m_j z_j) / (w_i + sum_j m_j), and adds the
/// masses to its w. Where the last message to a neighbour has not been read yet, that neighbour's share stays with the
/// rank. So the sums of x and w over the ranks and the messages under way stay as they are, and nobody waits.
class AsynchronousPushSumAverager final : public PushSumAverager {
 public:
  explicit AsynchronousPushSumAverager(const AveragerContext& context)
      : PushSumAverager(context),
        comm_(context.comm),
        window_(context.comm, *graph_of(context.topology).at(0), context.length, transport_options(context.transport)),
        mixer_(context.length, window_.in_edges()) {}

  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights,
                     Vector<float> /*gradient*/, double /*share*/) override {
    take(exec, weights);  // before the update, which moves z less the larger w is
    before_local_update(exec, weights);
  }
  void after_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights) override {
    after_local_update(exec, weights);
    give(exec, weights);
  }

  bool settle(const ExecutionSpace& exec, Vector<float> weights) override {
    bool taken = false;
    window_.drain([&] { taken = take(exec, weights) || taken; });
    return taken;
  }

  [[nodiscard]] std::vector<SavedState> state() override {
    return {{"push_sum_weights", std::span(of_sums_.data(), 1)}};
  }
  /// Collective. The messages that were under way when the checkpoint was written are lost, x and w alike, which leaves
  /// every z as it is; so that ranks do not come to hold less and less, the sum of w becomes the number of ranks again.
  void restored() override { w() *= comm_.ranks() / comm_.sum(w()); }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  // The optimizer's step moves z by 1 / w of it. A rank with fast neighbours would be left with next to nothing before
  // a slow one sends it something, so it always keeps half of what it starts with, and sends when it has more to give.
  static constexpr double kept = 0.5, enough = 0.75;

  /// Whether anything has come.
  bool take(const ExecutionSpace& exec, Vector<float> z) {
    received_.clear();
    terms_.clear();
    double sum = w();
    for (std::size_t edge = 0; edge < window_.in_edges(); ++edge) {
      const std::optional<MailWindow::Message> message = window_.receive(edge);
      if (!message) continue;
      received_.push_back(edge);
      terms_.push_back({message->number, message->values});
      sum += message->number;
    }
    if (terms_.empty()) return false;
    for (WeightedHalo& term : terms_) term.weight /= sum;
    mixer_.mix(exec, w() / sum, terms_, z);
    w() = sum;
    for (const std::size_t edge : received_) window_.release(edge);
    return true;
  }

  void give(const ExecutionSpace& exec, Vector<const float> z) {
    free_.clear();
    for (std::size_t edge = 0; edge < window_.out_edges(); ++edge) {
      if (window_.is_free(edge)) free_.push_back(edge);
    }
    if (free_.empty() || w() < enough) return;
    const double even = w() / static_cast<double>(window_.out_edges() + 1);
    const double mass = std::min(even, (w() - kept) / static_cast<double>(free_.size()));
    const HostVector<const float> values = staging_.download(exec, z);
    for (const std::size_t edge : free_) {
      window_.send(edge, values, mass);
      w() -= mass;
    }
  }

  Communicator comm_;
  MailWindow window_;
  HaloMixer mixer_;
  std::vector<WeightedHalo> terms_;  // of one step, as are the next two
  std::vector<std::size_t> received_, free_;
};

std::unique_ptr<Averager> make_push_sum(const AveragerContext& context) {
  if (lockstep_or_free(context.averager) == Pace::free) return std::make_unique<AsynchronousPushSumAverager>(context);
  return std::make_unique<SynchronousPushSumAverager>(context);
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
      .pace = lockstep_or_free,
      .always_under_way = true,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options =
          std::vector<AveragerOption>{
              {.key = "overlap", .every_step = true},
              {.key = "staleness", .fixed_graph = true, .apart = true, .bounded = false},
          },
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
