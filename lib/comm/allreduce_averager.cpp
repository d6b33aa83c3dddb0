#include <algorithm>
#include <exception>

#include "comm/averagers.hpp"
#include "comm/host_staging.hpp"
#include "kernels/error.hpp"
#include "kernels/mix.hpp"
#include "support/wait.hpp"

namespace halograd {

namespace {

constexpr std::size_t most_floats = std::size_t{1} << 28;  // of one MPI_Iallreduce, whose counts are int

class AllreduceAverager final : public Averager {
 public:
  AllreduceAverager(MPI_Comm comm, std::size_t length) : length_(length), staging_(length) {
    MPI_Comm_dup(comm, &comm_);
    MPI_Comm_size(comm_, &ranks_);
  }
  ~AllreduceAverager() override {
    // Freeing is collective: while an exception ends this rank alone, nobody else comes.
    if (std::uncaught_exceptions() == exceptions_) MPI_Comm_free(&comm_);
  }
  AllreduceAverager(const AllreduceAverager&) = delete;
  AllreduceAverager& operator=(const AllreduceAverager&) = delete;

  void before_update(const ExecutionSpace& exec, std::int64_t /*step*/, Vector<float> /*weights*/,
                     Vector<float> gradient, double share) override {
    HALOGRAD_REQUIRE(gradient.extent(0) == length_, "allreduce: ", gradient.extent(0), " gradients; expected ",
                     length_);
    scale(exec, share, gradient);
    if (ranks_ == 1) return;
    const HostVector<float> host = staging_.download_to_change(exec, gradient);
    for (std::size_t begin = 0; begin < length_; begin += most_floats) {
      const int count = static_cast<int>(std::min(most_floats, length_ - begin));
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(MPI_IN_PLACE, host.data() + begin, count, MPI_FLOAT, MPI_SUM, comm_, &request);
      wait_seconds_ += wait_politely(request);
    }
    staging_.upload(exec, gradient);
    bytes_sent_ += allreduce_bytes(ranks_, length_);
  }

  [[nodiscard]] bool shares_gradients() const override { return true; }
  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int ranks_ = 1;
  int exceptions_ = std::uncaught_exceptions();
  std::size_t length_;
  HostStaging staging_;
  double wait_seconds_ = 0;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace

std::int64_t allreduce_bytes(int ranks, std::size_t length) {
  return 2 * (ranks - 1) * static_cast<std::int64_t>(length * sizeof(float)) / ranks;
}

std::unique_ptr<Averager> make_allreduce_averager(MPI_Comm comm, std::size_t length) {
  return std::make_unique<AllreduceAverager>(comm, length);
}

}  // namespace halograd
