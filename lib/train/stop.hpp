#pragma once

#include <chrono>
#include <string>

#include "io/file_worker.hpp"
#include "mpi/agreement.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// Why a training ends before its last epoch. Where ranks have different reasons, the one furthest down here counts.
enum class StopReason { none, time_limit, user_signal, end_signal, not_finite, failure };

/// "SIGUSR1", "SIGTERM", "the time limit"
std::string to_string(StopReason reason);

/// What this rank asks for: to stop on SIGUSR1 or SIGTERM (support/stop_signals.hpp), shortly before a time limit (the
/// run file's, or the end of the Slurm job as SLURM_JOB_END_TIME has it), or because it cannot go on. Times are of the
/// monotonic clock: the system's clock is looked at once, to learn how long the Slurm job still has.
class StopRequest {
 public:
  /// `time_limit`: seconds from now; 0: none. `checkpoint_seconds`: what a checkpoint may take, as long as none was
  /// written.
  StopRequest(double time_limit, double checkpoint_seconds);

  /// This rank cannot go on: all stop, without a checkpoint, and end with the first such message.
  void fail(const Failure& failure);
  /// This rank has met numbers that are not finite and has left them out: all stop, with a checkpoint.
  void not_finite(const std::string& message);
  /// Why this rank cannot go on; no message: it can.
  [[nodiscard]] const Failure& failure() const { return failure_; }

  /// What this rank asks for at this moment. `ahead`: seconds that will pass before the next chance to stop.
  [[nodiscard]] StopReason reason(double ahead) const;
  /// Collective. Throws CollectiveError with the first message of fail(), if a rank has failed.
  void end_failed(const Communicator& comm) const;
  /// Collective. After the checkpoint: throws CollectiveError with the first message of not_finite(), if there is one,
  /// and where the checkpoint is.
  void end_not_finite(const Communicator& comm, const std::string& checkpoint) const;

  /// How long one took to write: the last one is begun so much earlier.
  void checkpoint_took(double seconds);

  /// How long is left and who says so; empty where there is no limit.
  [[nodiscard]] const std::string& limit() const { return limit_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string limit_, not_finite_;
  Failure failure_;
  bool limited_ = false;
  Clock::time_point end_{};
  double checkpoint_seconds_;
  bool checkpoint_measured_ = false;
};

/// What all ranks are to do after a step.
struct AgreedNext {
  StopReason stop = StopReason::none;
  bool checkpoint = false;  ///< and go on
};

/// Where ranks train in lockstep: what any of them asks for, which all come to know at the same step.
class StopAgreement {
 public:
  /// Collective. `request` must outlive this.
  StopAgreement(const Communicator& comm, const StopRequest& request);

  /// After each step, by all ranks (mpi/agreement.hpp). `checkpoint_due`: this rank asks for one, as long as there is
  /// none. Throws CollectiveError where a rank has failed.
  AgreedNext after_step(bool checkpoint_due);
  /// After each batch of an evaluation, by all ranks, as often on each. Throws as after_step().
  StopReason after_evaluated_batch();
  /// Collective, and waits. `ahead`: seconds that will pass before the next chance to stop.
  StopReason now(double ahead);

 private:
  [[nodiscard]] int asked(double ahead) const;
  [[nodiscard]] StopReason checked(int agreed) const;

  const Communicator& comm_;
  const StopRequest& request_;
  Agreement agreement_, evaluating_;  ///< each learns the length of its own steps
  int checkpoints_ = 0;               ///< agreed on: ranks ask for one by its number, as the answer comes steps later
};

}  // namespace halograd
