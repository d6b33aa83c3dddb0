#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "averagers/averagers.hpp"
#include "kernels/error.hpp"
#include "window/halo_window.hpp"
#include "window/host_staging.hpp"

namespace halograd {
namespace {

/// FAST as published (Viviani et al., PDP 2019): each rank's gradient goes to its neighbours, and each makes a further
/// step of the optimizer with each that it receives. Nothing brings the replicas back together but this: every
/// sync_epochs epochs all take the weights of the one that is best on the test set, and the optimizer starts anew.
class FastAverager final : public Averager {
 public:
  explicit FastAverager(const AveragerContext& context)
      : comm_(context.comm),
        length_(context.length),
        sync_epochs_(context.averager.sync_epochs),
        neighbours_(context.topology.in_neighbours(comm_.rank()).size()),
        message_("halograd::gradient_message", length_ + 1),
        staging_(length_ + 1),
        weights_staging_(length_),
        window_(context.comm, context.topology, length_ + 1, {transport_options(context.transport)}),
        optimizer_state_(context.optimizer_state),
        optimizer_step_(context.optimizer_step) {
    if constexpr (!runs_on_host) received_.emplace("halograd::gradient", length_);
    window_.start_at(context.first_step);
  }

  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> /*weights*/, Vector<float> gradient,
                     double share) override {
    if (comm_.ranks() == 1) return;
    Kokkos::deep_copy(exec, slice(message_, 0, length_), gradient);
    Kokkos::deep_copy(exec, slice(message_, length_, 1), share > 0 ? 1.0F : 0.0F);  // whether the gradient counts
    window_.put(step + 1, staging_.download(exec, message_));
  }

  void after_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    window_.flush();
    for (std::size_t edge = 0; edge < neighbours_; ++edge) {
      const HostVector<const float> halo = window_.wait(static_cast<int>(edge), step + 1);
      if (halo.data()[length_] != 0) optimizer_step_(exec, weights, in_reach(exec, slice(halo, 0, length_)));
      exec.fence();
      window_.release(static_cast<int>(edge), step + 1);
    }
  }

  bool after_epoch(const ExecutionSpace& exec, std::int64_t epochs, Vector<float> weights, double score) override {
    if (sync_epochs_ == 0 || epochs % sync_epochs_ != 0) return false;
    if (std::isnan(score)) score = -std::numeric_limits<double>::infinity();
    const std::vector<double> scores = comm_.gather(score);
    const auto best = static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    const HostVector<float> host = weights_staging_.download_to_change(exec, weights);
    comm_.broadcast(std::span(host.data(), length_), best);
    weights_staging_.upload(exec, weights);
    for (const Vector<float>& state : optimizer_state_) Kokkos::deep_copy(exec, state, 0.0F);
    exec.fence();
    if (comm_.rank() == best) bytes_sent_ += static_cast<std::int64_t>(length_ * sizeof(float)) * (comm_.ranks() - 1);
    return true;
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent() + bytes_sent_; }
  std::vector<EdgeRecord> take_edges() override { return window_.edges().take(); }

 private:
  Vector<const float> in_reach([[maybe_unused]] const ExecutionSpace& exec, HostVector<const float> halo) {
    if constexpr (runs_on_host) {
      return Vector<const float>(halo.data(), halo.extent(0));
    } else {
      Kokkos::deep_copy(exec, *received_, halo);
      return *received_;
    }
  }

  OwnedComm comm_;
  std::size_t length_;
  int sync_epochs_;
  std::size_t neighbours_;
  Buffer<float> message_;
  HostStaging staging_, weights_staging_;
  HaloWindow window_;
  std::vector<Vector<float>> optimizer_state_;
  std::function<void(const ExecutionSpace&, Vector<float>, Vector<const float>)> optimizer_step_;
  std::optional<Buffer<float>> received_;
  std::int64_t bytes_sent_ = 0;
};

std::unique_ptr<Averager> make_fast(const AveragerContext& context) {
  HALOGRAD_REQUIRE(context.optimizer_step, "the averager fast needs an optimizer");
  return std::make_unique<FastAverager>(context);
}

/// The gradient and whether it counts.
double bytes_of_fast(const ExchangeSize& size) {
  return size.topology.mean_out(size.rank) * static_cast<double>((size.length + 1) * sizeof(float));
}

}  // namespace

AveragerRow fast_row() {
  return {
      .name = "fast",
      .meaning = "a further step of the optimizer with the gradient of each in-neighbour",
      .make = make_fast,
      .bytes_per_exchange = bytes_of_fast,
      .exchanges = Exchange::gradients,
      .graphs = Graphs::fixed,
      .of_nodes = false,
      .out_degree = false,
      .pace = always_lockstep,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{"sync_epochs"},
  };
}

}  // namespace halograd
