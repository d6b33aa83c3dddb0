#pragma once

#include <array>
#include <chrono>

#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"

namespace halograd {

/// Makes what one rank asks for known to all ranks at the same step boundary, without a collective call inside a step.
///
/// At some boundaries, the same on all ranks, each starts a reduction of what it asks for; all take the answer `lag`
/// boundaries later, when it has long arrived (a test of it at each boundary moves it on), and start the next. Only a
/// rank that is `lag` steps ahead of another waits for it. The lag follows from the length of a step, which the
/// reduction carries too: about half a second, 4 to 64 steps.
class Agreement {
 public:
  static constexpr long least_lag = 4, most_lag = 64;

  /// Collective.
  explicit Agreement(const Communicator& comm);

  /// After each step, by every rank. Returns the largest that any rank had asked for when the last reduction began, or
  /// 0 where no answer is due: the same on all ranks at the same step, at most 2 * most_lag steps after it was asked
  /// for. What is asked for has to be asked for again until then.
  int at_boundary(int asked);

  /// Collective: the largest that the ranks ask for with this call, without a lag; waits for all of them.
  [[nodiscard]] int now(int asked) const;

  /// What at_boundary() may take to answer.
  [[nodiscard]] double longest_delay_seconds() const { return 2 * static_cast<double>(lag_) * step_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  OwnedComm comm_;
  std::array<double, 2> answer_{};  ///< largest of the ranks: asked for, seconds per step
  OwnedRequest reduction_;
  long lag_ = least_lag, left_ = 0;
  double step_seconds_ = 0;   ///< of the slowest rank; 0: not known yet
  double shortest_step_ = 0;  ///< of this rank in this round: evaluations between two steps do not count
  Clock::time_point last_boundary_{};
};

}  // namespace halograd
