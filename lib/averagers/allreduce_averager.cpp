#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "averagers/averagers.hpp"
#include "averagers/codec_table.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "mpi/rank_clock.hpp"
#include "mpi/wait.hpp"
#include "support/trace.hpp"
#include "window/all_reduce.hpp"
#include "window/injector.hpp"

namespace halograd {

namespace {

/// g <- sum_i share_i g_i over all ranks: P ranks make the steps that one rank makes with the batches of all.
class AllreduceAverager final : public Averager {
 public:
  AllreduceAverager(const Communicator& comm, std::size_t length, Travel travel, const CommConfig& transport)
      : comm_(comm),
        length_(length),
        open_(length),
        travel_(travel),
        injector_(transport.inject),
        report_seconds_(transport.report_seconds) {
    if (comm_.ranks() == 1) return;
    all_reduce_ = make_all_reduce(comm_, travel_);
    sum_ = Buffer<float>("halograd::gradient_sum", length);
    host_sum_ = Kokkos::create_mirror_view(sum_);
  }

  void gradient_ready(const ExecutionSpace& exec, Vector<const float> gradient, std::size_t begin,
                      double share) override {
    if (comm_.ranks() == 1) return;
    if (open_ - begin >= bucket_floats) {
      start(exec, gradient, begin, share);
      early_share_ = share;
    }
    all_reduce_->move_on();  // MPI moves what is under way only while it is called
  }

  void before_update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> gradient,
                     double share) override {
    update(exec, step, weights, gradient, share, [](std::size_t /*begin*/, std::size_t /*length*/) {});
  }

  /// Updates the weights of the first buckets while the others are still under way. Where all ranks leave their
  /// gradients out, no rank makes a step: momentum and weight decay would move the weights all the same.
  void update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> /*weights*/, Vector<float> gradient,
              double share, const OptimizeSlice& optimize) override {
    HALOGRAD_REQUIRE(gradient.extent(0) == length_, "allreduce: ", gradient.extent(0), " gradients; expected ",
                     length_);
    if (comm_.ranks() == 1) {
      scale(exec, share, gradient);
      if (share > 0) optimize(0, length_);
      return;
    }
    // Where a rank leaves its gradient out, what has left of it must not count: all sum anew.
    std::array<int, 2> of_any_rank{open_ < length_ && share != early_share_ ? 1 : 0, share > 0 ? 1 : 0};
    const auto& [left_out, counts] = of_any_rank;
    OwnedRequest agreed;
    MPI_Iallreduce(MPI_IN_PLACE, of_any_rank.data(), 2, MPI_INT, MPI_MAX, comm_.handle(), agreed.start());
    start(exec, gradient, 0, share);
    wait_until([&] {
      all_reduce_->move_on();
      return agreed.test();
    });
    if (left_out != 0) {
      for (const Bucket& bucket : buckets_) wait_for(bucket);
      buckets_.clear();
      open_ = length_;
      start(exec, gradient, 0, share);
    }
    for (const Bucket& bucket : buckets_) {
      wait_for(bucket);
      const Vector<float> part = slice(sum_, bucket.begin, bucket.length);
      Kokkos::deep_copy(exec, part, slice(host_sum_, bucket.begin, bucket.length));
      Kokkos::deep_copy(exec, slice(gradient, bucket.begin, bucket.length), part);
      if (counts != 0) optimize(bucket.begin, bucket.length);
    }
    buckets_.clear();
    open_ = length_;
  }

  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  /// A range of the gradient whose sum is under way.
  struct Bucket {
    std::size_t begin, length;
    std::int64_t number;   ///< of its AllReduce
    std::int64_t arrives;  ///< when (node_clock) it may be complete, where latency or a bandwidth is injected
  };

  /// Begins to add up what is complete from `begin` on and has not been started. The gradient itself stays as it is.
  void start(const ExecutionSpace& exec, Vector<const float> gradient, std::size_t begin, double share) {
    const std::size_t length = open_ - begin;
    const Vector<float> part = slice(sum_, begin, length);
    scale(exec, share, slice(gradient, begin, length), part);
    Kokkos::deep_copy(exec, slice(host_sum_, begin, length), part);
    exec.fence();
    const std::int64_t bytes = all_reduce_bytes(comm_.ranks(), length, travel_);
    buckets_.push_back({begin, length, all_reduce_->start(HostVector<float>(host_sum_.data() + begin, length)),
                        injector_.ring_arrives(node_clock(), comm_.ranks(), bytes)});
    bytes_sent_ += bytes;
    open_ = begin;
  }

  void wait_for(const Bucket& bucket) {
    wait_until([&] { return all_reduce_->has_ended(bucket.number) && node_clock() >= bucket.arrives; });
  }

  template <class Condition>
  void wait_until(const Condition& condition) {
    const trace::Span span("wait", "comm");
    wait_seconds_ += all_reduce_->wait_until(condition, report_seconds_);
  }

  OwnedComm comm_;
  std::size_t length_;
  std::size_t open_;  ///< values before this one are not under way in this step
  double early_share_ = 0;
  Travel travel_;
  Injector injector_;
  Buffer<float> sum_;
  decltype(Kokkos::create_mirror_view(Buffer<float>())) host_sum_;
  std::unique_ptr<AllReduce> all_reduce_;
  std::vector<Bucket> buckets_;  ///< in the order in which they were started: from the gradient's end on
  double wait_seconds_ = 0, report_seconds_;
  std::int64_t bytes_sent_ = 0;
};

Travel travel_of(const AveragerConfig& averager) {
  return is_coded(averager) ? Travel::bf16 : Travel::floats;  // run/averager_checks.cpp lets no other codec come here
}

std::unique_ptr<Averager> make_allreduce(const AveragerContext& context) {
  return std::make_unique<AllreduceAverager>(context.comm, context.length, travel_of(context.averager),
                                             context.transport);
}

}  // namespace

double sends_allreduce(const ExchangeSize& size) {
  return static_cast<double>(all_reduce_bytes(size.topology.ranks(), size.length, travel_of(size.averager)));
}

AveragerRow allreduce_row() {
  return {
      .name = "allreduce",
      .meaning = "the mean of the gradients of all ranks",
      .make = make_allreduce,
      .bytes_per_exchange = sends_allreduce,
      .exchanges = Exchange::gradients,
      .graphs = Graphs::none,
      .of_nodes = false,
      .out_degree = false,
      .pace = always_lockstep,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = true,
      .shares_gradients = true,
      .local_steps = false,
      .device_windows = false,
      .options = std::vector<AveragerOption>{{.key = "codec"}},
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
