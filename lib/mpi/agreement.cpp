#include "mpi/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "mpi/wait.hpp"

namespace halograd {
namespace {

constexpr double delay_seconds = 0.5;
constexpr double no_step = std::numeric_limits<double>::infinity();

}  // namespace

Agreement::Agreement(MPI_Comm comm) : exceptions_(std::uncaught_exceptions()), shortest_step_(no_step) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_size(comm_, &ranks_);
}

Agreement::~Agreement() {
  // While an exception ends this rank alone, nobody else comes.
  if (std::uncaught_exceptions() > exceptions_) return;
  wait_politely(request_);
  MPI_Comm_free(&comm_);
}

int Agreement::at_boundary(int asked) {
  const Clock::time_point boundary = Clock::now();
  if (last_boundary_ != Clock::time_point{}) {
    shortest_step_ = std::min(shortest_step_, std::chrono::duration<double>(boundary - last_boundary_).count());
  }
  last_boundary_ = boundary;
  if (ranks_ == 1) return asked;
  if (left_ > 1) {
    --left_;
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return 0;
  }
  int agreed = 0;
  if (left_ == 1) {
    wait_politely(request_);
    agreed = static_cast<int>(answer_[0]);
    step_seconds_ = answer_[1];
    lag_ = std::clamp(std::lround(delay_seconds / std::max(1e-6, step_seconds_)), least_lag, most_lag);
  }
  answer_ = {static_cast<double>(asked), shortest_step_ == no_step ? 0 : shortest_step_};
  shortest_step_ = no_step;
  left_ = lag_;
  MPI_Iallreduce(MPI_IN_PLACE, answer_.data(), 2, MPI_DOUBLE, MPI_MAX, comm_, &request_);
  return agreed;
}

int Agreement::now(int asked) const {
  int most = asked;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, comm_, &request);
  wait_politely(request);
  return most;
}

}  // namespace halograd
