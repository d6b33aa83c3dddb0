#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "averagers/averagers.hpp"
#include "kernels/mix.hpp"
#include "mpi/rank_clock.hpp"
#include "window/all_reduce.hpp"
#include "window/host_staging.hpp"
#include "window/injector.hpp"

namespace halograd {
namespace {

/// Elastic averaging SGD (Zhang, Choromanska, LeCun, 2015), synchronous: replicas are drawn to a centre c and the
/// centre to them, alpha = elasticity / P:
///   x_i <- x_i - alpha (x_i - c) - step of the gradient at x_i,   c <- c + alpha sum_i (x_i - c).
/// Every rank keeps the centre and makes the same step of it: the sum of the replicas, which that takes, travels while
/// the gradient is computed.
class ElasticAverager final : public Averager {
 public:
  explicit ElasticAverager(const AveragerContext& context)
      : comm_(context.comm),
        length_(context.length),
        centre_staging_(length_),
        centre_("halograd::centre", length_),
        sum_("halograd::replica_sum", length_),
        host_sum_(Kokkos::create_mirror_view(sum_)),
        all_reduce_(make_all_reduce(comm_)),
        injector_(context.transport.inject),
        report_seconds_(context.transport.report_seconds) {
    const int ranks = comm_.ranks();
    alpha_ = context.averager.elasticity / ranks;
    shard_.resize((length_ + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks));
  }

  void before_gradient(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<const float> weights) override {
    Kokkos::deep_copy(exec, host_sum_, weights);
    exec.fence();
    number_ = all_reduce_->start(HostVector<float>(host_sum_.data(), length_));
    arrives_ = injector_.ring_arrives(node_clock(), comm_.ranks(), all_reduce_bytes(comm_.ranks(), length_));
  }
  void gradient_ready(const ExecutionSpace& /*exec*/, Vector<const float> /*gradient*/, std::size_t /*begin*/,
                      double /*share*/) override {
    all_reduce_->move_on();  // MPI moves what is under way only while it is called
  }
  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> weights,
                     Vector<float> /*gradient*/, double /*share*/) override {
    const auto has_come = [this] { return all_reduce_->has_ended(number_) && node_clock() >= arrives_; };
    wait_seconds_ += all_reduce_->wait_until(has_come, report_seconds_);
    bytes_sent_ += all_reduce_bytes(comm_.ranks(), length_);
    Kokkos::deep_copy(exec, sum_, host_sum_);
    if (started_[0] == 0) mix(exec, {0, 1, {1.0 / comm_.ranks()}, {sum_.data()}}, centre_);  // the mean of the replicas
    started_[0] = 1;
    mix(exec, {1 - alpha_, 1, {alpha_}, {centre_.data()}}, weights);
    mix(exec, {1 - alpha_ * comm_.ranks(), 1, {alpha_}, {sum_.data()}}, centre_);
    exec.fence();
  }

  /// Each rank's share of the centre.
  [[nodiscard]] std::vector<SavedState> state() override {
    const HostVector<const float> centre = centre_staging_.download(ExecutionSpace(), centre_);
    const std::size_t begin = std::min(length_, shard_.size() * static_cast<std::size_t>(comm_.rank()));
    std::fill(shard_.begin(), shard_.end(), 0.0F);
    std::copy_n(centre.data() + begin, std::min(shard_.size(), length_ - begin), shard_.begin());
    return {{"centre", std::span(shard_)}, {"started", std::span(started_)}};
  }
  void restored() override {
    const std::vector<float> all = comm_.gather(std::span(shard_));
    Kokkos::deep_copy(centre_, HostVector<const float>(all.data(), length_));
  }

  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  OwnedComm comm_;
  double alpha_ = 0;
  std::size_t length_;
  HostStaging centre_staging_;
  Buffer<float> centre_, sum_;
  decltype(Kokkos::create_mirror_view(Buffer<float>())) host_sum_;
  std::unique_ptr<AllReduce> all_reduce_;
  std::int64_t number_ = 0;  // the sum that is under way
  Injector injector_;
  std::int64_t arrives_ = 0;  // the sum (node_clock), where latency or a bandwidth is injected
  std::vector<float> shard_;
  std::array<std::int64_t, 1> started_{};  // whether there is a centre
  double wait_seconds_ = 0, report_seconds_;
  std::int64_t bytes_sent_ = 0;
};

std::unique_ptr<Averager> make_elastic(const AveragerContext& context) {
  return std::make_unique<ElasticAverager>(context);
}

}  // namespace

AveragerRow elastic_row() {
  return {
      .name = "easgd",
      .meaning = "replicas and a common centre are drawn to each other",
      .make = make_elastic,
      .bytes_per_exchange = sends_allreduce,
      .exchanges = Exchange::weights,
      .graphs = Graphs::none,
      .of_nodes = false,
      .out_degree = false,
      .pace = always_lockstep,
      .always_under_way = false,
      .survives_losses = false,
      .beside_gradient = true,
      .shares_gradients = false,
      .local_steps = true,
      .device_windows = false,
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{"elasticity"},
  };
}

}  // namespace halograd
