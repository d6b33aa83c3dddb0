#include "averagers/consensus_control.hpp"

#include <algorithm>
#include <cmath>

namespace halograd {

ConsensusControl::ConsensusControl(const Communicator& comm, const Communicator* group, double target,
                                   std::int64_t longest)
    : comm_(comm), group_(group), target_(target), longest_(longest), rows_(static_cast<std::size_t>(comm.ranks())) {}

std::int64_t ConsensusControl::next_period(std::int64_t period, const std::array<double, sketch_width>& projections,
                                           double squared_step) {
  finish();
  const auto [distance, step] = measured_;
  if (step >= 0) {
    const double allowed = target_ * std::sqrt(step);
    if (std::sqrt(distance) > allowed) {
      period = std::max<std::int64_t>(1, period / 2);
    } else if (std::sqrt(distance) < allowed / 2) {
      period = std::min(longest_, period + 1);
    }
  }
  std::copy(projections.begin(), projections.end(), mine_.begin());
  mine_.back() = squared_step;
  constexpr int count = sketch_width + 1;
  MPI_Iallgather(mine_.data(), count, MPI_DOUBLE, rows_.data(), count, MPI_DOUBLE, comm_.handle(), exchange_.start());
  bytes_sent_ += static_cast<std::int64_t>(sizeof(Row) * (rows_.size() - 1));
  return period;
}

void ConsensusControl::finish() {
  if (!exchange_.is_under_way()) return;
  wait_seconds_ += exchange_.wait();
  const auto ranks = static_cast<double>(rows_.size());
  double distance = 0, step = 0;
  for (std::size_t k = 0; k < sketch_width; ++k) {
    double mean = 0;
    for (const Row& row : rows_) mean += row[k] / ranks;
    for (const Row& row : rows_) distance += (row[k] - mean) * (row[k] - mean) / ranks;
  }
  for (const Row& row : rows_) step += row.back() / ranks;
  measured_ = {distance / sketch_width, step};
  if (group_ != nullptr) group_->sum(measured());
}

}  // namespace halograd
