#include <algorithm>
#include <array>
#include <optional>

#include "comm/averagers.hpp"
#include "comm/halo_window.hpp"
#include "comm/host_staging.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"

namespace halograd {

namespace {

/// Combine-then-adapt is D-PSGD (Lian et al., NeurIPS 2017): the exchange of x_k runs beside the gradient at x_k, and
/// the update is made on the mixed weights. Adapt-then-combine (Chen, Sayed, 2012) mixes what the update has left.
class NeighbourAverager final : public Averager {
 public:
  NeighbourAverager(bool combine_first, const CommConfig& transport, const Topology& topology, MPI_Comm comm,
                    std::size_t length, std::int64_t first_step)
      : combine_first_(combine_first),
        window_(comm, topology, length, {transport.slots, transport.force_put}),
        staging_(length) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    neighbours_ = topology.in_neighbours(rank);
    out_degree_ = topology.out_neighbours(rank).size();
    self_weight_ = topology.self_weight(rank);
    window_.start_at(first_step);
    if constexpr (!halos_are_in_reach) {
      for (std::size_t i = 0; i < std::min<std::size_t>(mix_width, neighbours_.size()); ++i) {
        device_halos_[i].emplace(Kokkos::view_alloc("halograd::halo", Kokkos::WithoutInitializing), length);
      }
    }
  }

  void before_gradient(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    if (combine_first_) publish(exec, step, weights);
  }
  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> /*gradient*/,
                     double /*share*/) override {
    if (combine_first_) combine(exec, step, weights);
  }
  void after_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    if (combine_first_) return;
    publish(exec, step, weights);
    combine(exec, step, weights);
  }

  [[nodiscard]] double wait_seconds() const override { return window_.wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_.bytes_sent(); }

 private:
  static constexpr bool halos_are_in_reach = Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible;

  void publish(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) {
    if (out_degree_ > 0) window_.put(step + 1, staging_.download(exec, weights));
  }

  /// Always in ascending order of rank, own weights first, so that equal runs are equal to the last bit.
  void combine(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) {
    window_.flush();  // before the mix below changes what MPI may still be reading
    MixTerms terms;
    terms.self_weight = self_weight_;
    const int degree = static_cast<int>(neighbours_.size());
    for (int first = 0; first < degree; first += mix_width) {
      terms.count = std::min(mix_width, degree - first);
      for (int i = 0; i < terms.count; ++i) {
        terms.weights[i] = neighbours_[first + i].weight;
        terms.halos[i] = in_reach(exec, i, window_.wait(first + i, step + 1));
      }
      mix(exec, terms, weights);
      exec.fence();
      for (int i = 0; i < terms.count; ++i) window_.release(first + i, step + 1);
      terms.self_weight = 1;
    }
  }

  const float* in_reach([[maybe_unused]] const ExecutionSpace& exec, [[maybe_unused]] int i,
                        HostVector<const float> halo) {
    if constexpr (halos_are_in_reach) {
      return halo.data();
    } else {
      Kokkos::deep_copy(exec, *device_halos_[i], halo);
      return device_halos_[i]->data();
    }
  }

  bool combine_first_;
  HaloWindow window_;
  HostStaging staging_;
  std::vector<Neighbour> neighbours_;
  std::size_t out_degree_ = 0;
  double self_weight_ = 1;
  std::array<std::optional<Buffer<float>>, mix_width> device_halos_;
};

}  // namespace

std::unique_ptr<Averager> make_neighbour_averager(const AveragerConfig& averager, const CommConfig& transport,
                                                  const Topology& topology, MPI_Comm comm, std::size_t length,
                                                  std::int64_t first_step) {
  const bool combine_first = averager.order == "combine_then_adapt";
  HALOGRAD_REQUIRE(combine_first || averager.order == "adapt_then_combine", "averager.order is \"", averager.order,
                   "\"; expected combine_then_adapt or adapt_then_combine");
  return std::make_unique<NeighbourAverager>(combine_first, transport, topology, comm, length, first_step);
}

}  // namespace halograd
