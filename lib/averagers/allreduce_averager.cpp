#include <algorithm>
#include <vector>

#include "averagers/averagers.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "mpi/rank_clock.hpp"
#include "mpi/wait.hpp"
#include "support/trace.hpp"
#include "window/injector.hpp"

namespace halograd {

namespace {

constexpr std::size_t most_floats = std::size_t{1} << 28;  // of one MPI_Iallreduce, whose counts are int

/// g <- sum_i share_i g_i over all ranks, by MPI_Iallreduce: P ranks make the steps that one rank makes with the
/// batches of all.
class AllreduceAverager final : public Averager {
 public:
  AllreduceAverager(const Communicator& comm, std::size_t length, const InjectConfig& inject)
      : comm_(comm), length_(length), open_(length), injector_(inject) {
    if (comm_.ranks() == 1) return;
    sum_ = Buffer<float>("halograd::gradient_sum", length);
    host_sum_ = Kokkos::create_mirror_view(sum_);
    requests_.reserve(length / bucket_floats + length / most_floats + 2);
  }

  void gradient_ready(const ExecutionSpace& exec, Vector<const float> gradient, std::size_t begin,
                      double share) override {
    if (comm_.ranks() == 1) return;
    if (open_ - begin >= bucket_floats) {
      start(exec, gradient, begin, share);
      early_share_ = share;
    }
    // MPI moves what is under way only while it is called.
    int done = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
  }

  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> /*weights*/,
                     Vector<float> gradient, double share) override {
    HALOGRAD_REQUIRE(gradient.extent(0) == length_, "allreduce: ", gradient.extent(0), " gradients; expected ",
                     length_);
    if (comm_.ranks() == 1) {
      scale(exec, share, gradient);
      return;
    }
    // Where a rank leaves its gradient out, what has left of it must not count: all sum anew. Whether one does travels
    // beside the last bucket.
    int left_out = open_ < length_ && share != early_share_ ? 1 : 0;
    MPI_Iallreduce(MPI_IN_PLACE, &left_out, 1, MPI_INT, MPI_MAX, comm_.handle(), &requests_.emplace_back());
    start(exec, gradient, 0, share);
    finish();
    if (left_out != 0) {
      start(exec, gradient, 0, share);
      finish();
    }
    Kokkos::deep_copy(exec, sum_, host_sum_);
    Kokkos::deep_copy(exec, gradient, sum_);
  }

  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  /// Begins to add up what is complete from `begin` on and has not been started. The gradient itself stays as it is.
  void start(const ExecutionSpace& exec, Vector<const float> gradient, std::size_t begin, double share) {
    const std::size_t length = open_ - begin;
    const Vector<float> part = slice(sum_, begin, length);
    Kokkos::deep_copy(exec, part, slice(gradient, begin, length));
    scale(exec, share, part);
    Kokkos::deep_copy(exec, slice(host_sum_, begin, length), part);
    exec.fence();
    for (std::size_t from = begin; from < open_; from += most_floats) {
      const int count = static_cast<int>(std::min(most_floats, open_ - from));
      MPI_Iallreduce(MPI_IN_PLACE, host_sum_.data() + from, count, MPI_FLOAT, MPI_SUM, comm_.handle(),
                     &requests_.emplace_back());
    }
    arrives_ = injector_.ring_arrives(node_clock(), comm_.ranks(), allreduce_bytes(comm_.ranks(), length));
    open_ = begin;
  }

  void finish() {
    const trace::Span span("wait", "comm");
    PolitePause pause;
    for (MPI_Request& request : requests_) wait_politely(request);
    while (node_clock() < arrives_) pause();
    wait_seconds_ += pause.seconds();
    requests_.clear();
    open_ = length_;
    bytes_sent_ += allreduce_bytes(comm_.ranks(), length_);
  }

  OwnedComm comm_;
  std::size_t length_;
  std::size_t open_;  ///< values before this one are not under way in this step
  double early_share_ = 0;
  Injector injector_;
  std::int64_t arrives_ = 0;  ///< what was started last (node_clock), where latency or a bandwidth is injected
  Buffer<float> sum_;
  decltype(Kokkos::create_mirror_view(Buffer<float>())) host_sum_;
  std::vector<MPI_Request> requests_;
  double wait_seconds_ = 0;
  std::int64_t bytes_sent_ = 0;
};

std::unique_ptr<Averager> make_allreduce(const AveragerContext& context) {
  return std::make_unique<AllreduceAverager>(context.comm, context.length, context.transport.inject);
}

}  // namespace

std::int64_t allreduce_bytes(int ranks, std::size_t length) {
  return 2 * (ranks - 1) * static_cast<std::int64_t>(length * sizeof(float)) / ranks;
}

double sends_allreduce(const ExchangeSize& size) {
  return static_cast<double>(allreduce_bytes(size.topology.ranks(), size.length));
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
      .options = std::vector<AveragerOption>{},
      .adjusted_by = std::vector<const char*>{},
  };
}

}  // namespace halograd
