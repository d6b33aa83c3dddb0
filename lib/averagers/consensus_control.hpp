#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sketch.hpp"
#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"

namespace halograd {

/// How far the replicas are apart, from one exchange to the next, without an exchange of weights: each rank sends
/// sketch_width projections of its replica, the same random directions on all. What is measured at one exchange is
/// known at the next: nobody waits for it in between.
class ConsensusControl {
 public:
  /// Collective. `group`: the ranks whose replicas are parts of one, for which they choose together; null: this one
  /// alone. `target`: the consensus distance to keep, in root-mean-square lengths of the optimizer's step;
  /// `longest`: the longest period to choose.
  ConsensusControl(const Communicator& comm, const Communicator* group, double target, std::int64_t longest);

  /// At each exchange, on all ranks: ends the measurement of the exchange before, and begins the next one with this
  /// rank's projections and the squared length of its optimizer's step. Returns the period to use from now on, the same
  /// on all ranks: half of `period` where the distance is above the target, one more step where it is below half of it.
  std::int64_t next_period(std::int64_t period, const std::array<double, sketch_width>& projections,
                           double squared_step);

  /// What the last measurement that has ended found: estimate of the mean of ||x_i - mean x||^2, mean of the squared
  /// steps; -1: none that counts. A checkpoint keeps it: finish() ends what is under way.
  void finish();
  [[nodiscard]] std::span<double> measured() { return measured_; }

  /// Seconds waited, and bytes sent.
  [[nodiscard]] double wait_seconds() const { return wait_seconds_; }
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }

 private:
  using Row = std::array<double, sketch_width + 1>;

  OwnedComm comm_;
  const Communicator* group_;
  double target_;
  std::int64_t longest_;
  Row mine_{};
  std::vector<Row> rows_;  // of all ranks: added up in their order, the sums are the same everywhere
  OwnedRequest exchange_;  // of the rows
  std::array<double, 2> measured_{-1, -1};
  double wait_seconds_ = 0;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace halograd
