#include "mpi/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace halograd {
namespace {

constexpr double delay_seconds = 0.5;
constexpr double no_step = std::numeric_limits<double>::infinity();

}  // namespace

Agreement::Agreement(const Communicator& comm) : comm_(comm), shortest_step_(no_step) {}

int Agreement::at_boundary(int asked) {
  const Clock::time_point boundary = Clock::now();
  if (last_boundary_ != Clock::time_point{}) {
    shortest_step_ = std::min(shortest_step_, std::chrono::duration<double>(boundary - last_boundary_).count());
  }
  last_boundary_ = boundary;
  if (comm_.ranks() == 1) return asked;
  if (left_ > 1) {
    --left_;
    reduction_.test();
    return 0;
  }
  int agreed = 0;
  if (left_ == 1) {
    reduction_.wait();
    agreed = static_cast<int>(answer_[0]);
    step_seconds_ = answer_[1];
    if (step_seconds_ > 0) lag_ = std::clamp(std::lround(delay_seconds / step_seconds_), least_lag, most_lag);
  }
  answer_ = {static_cast<double>(asked), shortest_step_ == no_step ? 0 : shortest_step_};
  shortest_step_ = no_step;
  left_ = lag_;
  MPI_Iallreduce(MPI_IN_PLACE, answer_.data(), 2, MPI_DOUBLE, MPI_MAX, comm_.handle(), reduction_.start());
  return agreed;
}

int Agreement::now(int asked) const {
  return comm_.largest(asked);
}

}  // namespace halograd
