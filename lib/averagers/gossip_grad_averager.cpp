#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/halo_mixer.hpp"
#include "kernels/error.hpp"
#include "window/host_staging.hpp"
#include "window/port_window.hpp"

namespace halograd {
namespace {

/// GossipGraD (Daily et al., 2018): a rank's gradient is averaged with that of one other rank, another in each step. By
/// shares of the batch, so that a smaller batch, or one whose gradient was left out, counts as such.
class GossipGradAverager final : public Averager {
 public:
  explicit GossipGradAverager(const AveragerContext& context)
      : staging_(context.length),
        window_(context.comm, *context.topology.dynamic(), context.length, context.first_step,
                transport_options(context.transport)),
        mixer_(context.length, 1) {}

  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> /*weights*/, Vector<float> gradient,
                     double share) override {
    window_.put(step, staging_.download(exec, gradient), share);
    window_.flush();
    const std::vector<PortWindow::Halo>& halos = window_.wait(step);
    if (!halos.empty() && halos[0].number > 0) {
      const double sum = share + halos[0].number;
      halos_.assign(1, {halos[0].number / sum, halos[0].values});
      mixer_.mix(exec, share / sum, halos_, gradient);
    }
    window_.release(step);
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override { return window_.take_edges(); }

 private:
  HostStaging staging_;
  PortWindow window_;
  HaloMixer mixer_;
  std::vector<WeightedHalo> halos_;  // of one step
};

std::unique_ptr<Averager> make_gossip_grad(const AveragerContext& context) {
  const DynamicTopology* dynamic = context.topology.dynamic();
  HALOGRAD_REQUIRE(dynamic != nullptr && !dynamic->is_constant(),
                   "averager gossip_grad needs a different partner in each ", "step: topology.kind is \"",
                   context.topology.kind(),
                   "\"; expected rotating_exponential, one_peer_exponential or random_matching");
  return std::make_unique<GossipGradAverager>(context);
}

}  // namespace

AveragerRow gossip_grad_row() {
  return {
      .name = "gossip_grad",
      .meaning = "the mean of the gradients of two ranks, with another partner in each step",
      .make = make_gossip_grad,
      .bytes_per_exchange = sends_weights,
      .exchanges = Exchange::gradients,
      .graphs = Graphs::changing,
      .of_nodes = false,
      .out_degree = false,
      .pace = always_lockstep,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = false,
      .device_windows = false,
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
