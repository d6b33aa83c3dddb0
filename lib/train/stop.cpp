#include "train/stop.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "kernels/error.hpp"
#include "support/stop_signals.hpp"
#include "support/text.hpp"
#include "train/report.hpp"

namespace halograd {
namespace {

constexpr double spare_seconds = 5;  // for what nobody has measured: closing files, the end of the program
constexpr int stops = 1 << 30;       // what is asked for: above it a StopReason, below it a checkpoint
constexpr double longest_job = 10.0 * 365 * 24 * 3600;

/// What Slurm still gives this job; 0 where it does not say, or what it says cannot be.
double slurm_seconds_left() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");  // Unix time
  if (text == nullptr) return 0;
  const double left = std::atof(text) - static_cast<double>(std::time(nullptr));
  return left > 0 && left < longest_job ? left : 0;
}

}  // namespace

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::time_limit:
      return "the time limit";
    case StopReason::user_signal:
      return "SIGUSR1";
    case StopReason::end_signal:
      return "SIGTERM";
    case StopReason::not_finite:
      return "numbers that are not finite";
    case StopReason::failure:
      return "a failure";
    case StopReason::none:
      break;
  }
  return "";
}

StopRequest::StopRequest(double time_limit, double checkpoint_seconds) : checkpoint_seconds_(checkpoint_seconds) {
  const double of_job = slurm_seconds_left();
  limited_ = time_limit > 0 || of_job > 0;
  if (!limited_) return;
  const bool own = time_limit > 0 && (of_job == 0 || time_limit < of_job);
  const double left = own ? time_limit : of_job;
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(left));
  limit_ = human_time(left) + (own ? " (training.time_limit)" : " until the end of the Slurm job");
}

void StopRequest::fail(const Failure& failure) {
  if (failure_.message.empty()) failure_ = failure;
}

void StopRequest::not_finite(const std::string& message) {
  if (not_finite_.empty()) not_finite_ = message;
}

StopReason StopRequest::reason(double ahead) const {
  if (!failure_.message.empty()) return StopReason::failure;
  if (!not_finite_.empty()) return StopReason::not_finite;
  switch (stop_signal()) {
    case SIGTERM:
      return StopReason::end_signal;
    case SIGUSR1:
      return StopReason::user_signal;
    default:
      break;
  }
  if (!limited_) return StopReason::none;
  const double needed = ahead + 2 * checkpoint_seconds_ + spare_seconds;
  const double left = std::chrono::duration<double>(end_ - Clock::now()).count();
  return left < needed ? StopReason::time_limit : StopReason::none;
}

void StopRequest::end_failed(const Communicator& comm) const {
  comm.fail_together(failure_.message, failure_.foreign);
}

void StopRequest::end_not_finite(const Communicator& comm, const std::string& checkpoint) const {
  comm.together([&] {
    HALOGRAD_REQUIRE(not_finite_.empty(), not_finite_, "; the last state that was finite is in ", checkpoint);
  });
}

void StopRequest::checkpoint_took(double seconds) {
  checkpoint_seconds_ = checkpoint_measured_ ? std::max(checkpoint_seconds_, seconds) : seconds;
  checkpoint_measured_ = true;
}

StopAgreement::StopAgreement(const Communicator& comm, const StopRequest& request)
    : comm_(comm), request_(request), agreement_(comm), evaluating_(comm) {}

AgreedNext StopAgreement::after_step(bool checkpoint_due) {
  int ask = asked(0);
  if (ask == 0 && checkpoint_due) ask = checkpoints_ + 1;
  const int agreed = agreement_.at_boundary(ask);
  AgreedNext next{checked(agreed), false};
  if (next.stop == StopReason::none && agreed > checkpoints_) {
    checkpoints_ = agreed;
    next.checkpoint = true;
  }
  return next;
}

StopReason StopAgreement::after_evaluated_batch() {
  return checked(evaluating_.at_boundary(asked(0)));
}

StopReason StopAgreement::now(double ahead) {
  return checked(agreement_.now(asked(ahead)));
}

int StopAgreement::asked(double ahead) const {
  const double delay = std::max(agreement_.longest_delay_seconds(), evaluating_.longest_delay_seconds());
  const StopReason reason = request_.reason(ahead + delay);
  return reason == StopReason::none ? 0 : stops + static_cast<int>(reason);
}

StopReason StopAgreement::checked(int agreed) const {
  const auto reason = static_cast<StopReason>(std::max(0, agreed - stops));
  if (reason == StopReason::failure) request_.end_failed(comm_);
  return reason;
}

}  // namespace halograd
