#include <algorithm>
#include <memory>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/weight_averager.hpp"
#include "kernels/error.hpp"
#include "mpi/node_group.hpp"
#include "mpi/wait.hpp"
#include "window/halo_window.hpp"
#include "window/host_staging.hpp"
#include "window/shared_segment.hpp"

namespace halograd {
namespace {

/// to[i] = sum_j weights[j] from[j][i], added up in that order in double, in parallel.
struct WeightedSum {
  std::vector<const float*> from;
  std::vector<double> weights;
  void operator()(float* to, std::size_t length) const {
    constexpr std::size_t block = 4096;
    const auto blocks = static_cast<long>((length + block - 1) / block);
    const auto sum_block = [&](long item) {
      double sums[block];
      const std::size_t begin = static_cast<std::size_t>(item) * block;
      const std::size_t count = std::min(block, length - begin);
      for (std::size_t i = 0; i < count; ++i) sums[i] = weights[0] * static_cast<double>(from[0][begin + i]);
      for (std::size_t j = 1; j < from.size(); ++j) {
        for (std::size_t i = 0; i < count; ++i) sums[i] += weights[j] * static_cast<double>(from[j][begin + i]);
      }
      for (std::size_t i = 0; i < count; ++i) to[begin + i] = static_cast<float>(sums[i]);
    };
    Kokkos::parallel_for("halograd::weighted_sum", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, blocks),
                         sum_block);
    Kokkos::DefaultHostExecutionSpace().fence();
  }
};

/// The exact mean of the ranks of a node, through shared memory, and the stencil of the topology between nodes. Each
/// rank of a node has charge of one slice: it sums the slice over the node's replicas, exchanges the mean with those
/// in charge of the same slice on the neighbour nodes, and leaves the result for the others of its node to copy.
class HierarchicalAverager final : public WeightAverager {
 public:
  HierarchicalAverager(const AveragerContext& context, const NodeGroup& group)
      : WeightAverager(context),
        length_(context.length),
        slice_((length_ + static_cast<std::size_t>(group.ranks_per_node) - 1) /
               static_cast<std::size_t>(group.ranks_per_node)),
        group_(group),
        node_comm_(context.comm.split(group.node, group.rank)),
        slice_comm_(context.comm.split(group.rank, group.node)),
        staging_(length_),
        mean_("halograd::node_mean", slice_),
        segment_(node_comm_, (result_offset() + slice_) * sizeof(float), RmaReach::none),
        rank_of_node_(slice_comm_.gather(context.comm.rank())),
        neighbours_(context.topology.in_neighbours(group.node)),
        self_weight_(context.topology.self_weight(group.node)) {
    // A slice after the other: Open MPI 4.1 names what the windows of a node share by the number of the communicator
    // alone, which all slices have in common.
    for (int slice = 0; slice < group.ranks_per_node; ++slice) {
      context.comm.together_in_parts([&] {
        if (slice != group.rank) return;
        window_ = std::make_unique<HaloWindow>(slice_comm_, context.topology, slice_,
                                               HaloWindow::Options{transport_options(context.transport)});
      });
    }
    window_->start_at(context.first_step);
  }

  [[nodiscard]] double wait_seconds() const override { return wait_seconds_ + window_->wait_seconds(); }
  [[nodiscard]] std::int64_t bytes_sent() const override { return window_->bytes_sent(); }
  std::vector<EdgeRecord> take_edges() override {
    std::vector<EdgeRecord> records = window_->edges().take();
    for (EdgeRecord& record : records) record.from = rank_of_node_[static_cast<std::size_t>(record.from)];
    return records;
  }

 private:
  /// Floats before the result in a rank's segment: its replica, padded to whole slices.
  [[nodiscard]] std::size_t result_offset() const { return slice_ * static_cast<std::size_t>(group_.ranks_per_node); }
  [[nodiscard]] float* replica_of(int rank) const { return reinterpret_cast<float*>(segment_.of(rank)); }

  /// All ranks of the node have come so far, and see what the others have written.
  void meet() {
    const PolitePause time;
    node_comm_.barrier();
    wait_seconds_ += time.seconds();
  }

  void publish(const ExecutionSpace& exec, std::int64_t step, Vector<const float> weights) override {
    copy(staging_.download(exec, weights).data(), replica_of(group_.rank), length_);
    meet();
    WeightedSum sum;
    for (int rank = 0; rank < group_.ranks_per_node; ++rank) {
      sum.from.push_back(replica_of(rank) + slice_ * static_cast<std::size_t>(group_.rank));
      sum.weights.push_back(1.0 / group_.ranks_per_node);
    }
    sum(mean_.data(), slice_);
    if (!neighbours_.empty()) window_->put(step + 1, mean_);
  }

  void combine(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) override {
    window_->flush();
    WeightedSum sum{{mean_.data()}, {self_weight_}};
    const int degree = static_cast<int>(neighbours_.size());
    for (int edge = 0; edge < degree; ++edge) {
      sum.from.push_back(window_->wait(edge, step + 1).data());
      sum.weights.push_back(neighbours_[static_cast<std::size_t>(edge)].weight);
    }
    sum(replica_of(group_.rank) + result_offset(), slice_);
    for (int edge = 0; edge < degree; ++edge) window_->release(edge, step + 1);
    meet();
    const HostVector<float> host = staging_.download_to_change(exec, weights);
    for (int rank = 0; rank < group_.ranks_per_node; ++rank) {
      const std::size_t begin = std::min(length_, slice_ * static_cast<std::size_t>(rank));
      copy(replica_of(rank) + result_offset(), host.data() + begin, std::min(slice_, length_ - begin));
    }
    staging_.upload(exec, weights);
  }

  static void copy(const float* from, float* to, std::size_t count) {
    Kokkos::deep_copy(Kokkos::DefaultHostExecutionSpace(), HostVector<float>(to, count),
                      HostVector<const float>(from, count));
    Kokkos::DefaultHostExecutionSpace().fence();
  }

  std::size_t length_, slice_;
  NodeGroup group_;
  OwnedComm node_comm_, slice_comm_;
  HostStaging staging_;
  Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace> mean_;  // of the node's replicas, this rank's slice
  SharedSegment segment_;
  std::unique_ptr<HaloWindow> window_;
  std::vector<int> rank_of_node_;      // that has charge of the same slice there
  std::vector<Neighbour> neighbours_;  // nodes
  double self_weight_;
  double wait_seconds_ = 0;
};

std::unique_ptr<Averager> make_hierarchical(const AveragerContext& context) {
  const NodeGroup group = node_group(context.comm, context.transport.ranks_per_node);
  HALOGRAD_REQUIRE(context.topology.ranks() == group.nodes, "averager hierarchical: the topology is for ",
                   context.topology.ranks(), " nodes, but there are ", group.nodes);
  return std::make_unique<HierarchicalAverager>(context, group);
}

/// The rank's slice, to its peers on the neighbour nodes.
double bytes_of_hierarchical(const ExchangeSize& size) {
  const auto slices = static_cast<std::size_t>(size.ranks_per_node);
  const std::size_t slice = (size.length + slices - 1) / slices;
  return size.topology.mean_out(size.rank / size.ranks_per_node) * static_cast<double>(slice * sizeof(float));
}

}  // namespace

AveragerRow hierarchical_row() {
  return {
      .name = "hierarchical",
      .meaning = "the exact mean within a node, and weights of neighbour nodes",
      .make = make_hierarchical,
      .bytes_per_exchange = bytes_of_hierarchical,
      .exchanges = Exchange::weights,
      .graphs = Graphs::fixed,
      .of_nodes = true,
      .out_degree = false,
      .pace = always_lockstep,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = false,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{"order"},
  };
}

}  // namespace halograd
