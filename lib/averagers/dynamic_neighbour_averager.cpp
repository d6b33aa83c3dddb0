#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/halo_averager.hpp"
#include "kernels/error.hpp"
#include "window/host_staging.hpp"
#include "window/port_window.hpp"

namespace halograd {
namespace {

/// x_i <- W_ii x_i + sum_j W_ij x_j with the mixing matrix of the step: one-peer D-PSGD (Assran et al., 2019; Ying et
/// al., 2021). Sums in ascending order of rank, own weights first.
class DynamicNeighbourAverager final : public HaloAverager {
 public:
  explicit DynamicNeighbourAverager(const AveragerContext& context)
      : HaloAverager(context, static_cast<std::size_t>(context.topology.dynamic()->most_in()), true),
        staging_(context.length),
        window_(context.comm, *context.topology.dynamic(), context.length, context.first_step,
                transport_options(context.transport)) {}

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override { return window_.take_edges(); }

 private:
  void publish(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    window_.put(step, staging_.download(exec, weights));
  }

  void send_ahead(const ExecutionSpace& exec, std::size_t begin, Vector<const float> values) override {
    window_.put_ahead(begin, staging_.download(exec, values));
  }

  double take_halos(std::int64_t step) override {
    window_.flush();  // before the mix changes what MPI may still be reading
    double self_weight = 1;
    halos_.clear();
    for (const PortWindow::Halo& halo : window_.wait(step)) {
      halos_.push_back({halo.weight, halo.values});
      self_weight -= halo.weight;
    }
    return self_weight;
  }
  void release_halos(std::int64_t step) override { window_.release(step); }

  HostStaging staging_;
  PortWindow window_;
};

}  // namespace

std::unique_ptr<Averager> make_dynamic_neighbour_averager(const AveragerContext& context) {
  const AveragerConfig& averager = context.averager;
  HALOGRAD_REQUIRE(averager.staleness == 0 && averager.patience == 0,
                   "averager.staleness and averager.patience need a constant graph, but topology.kind is \"",
                   context.topology.kind(), "\"");
  HALOGRAD_REQUIRE(!context.topology.dynamic()->is_constant(),
                   "topology.weights = \"out_degree\" applies only to averager.name = \"push_sum\", which divides by "
                   "the weight that a ",
                   "rank has gathered; the mean of the replicas would drift");
  return std::make_unique<DynamicNeighbourAverager>(context);
}

}  // namespace halograd
