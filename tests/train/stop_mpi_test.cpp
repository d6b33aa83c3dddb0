#include "train/stop.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>

#include "kernels/error.hpp"
#include "support/stop_signals.hpp"

namespace halograd::stop_mpi_test {
namespace {

/// What a rank asks for, and what all agree on.
struct Stop : StopRequest {
  Stop(const Communicator& comm, double time_limit, double checkpoint_seconds)
      : StopRequest(time_limit, checkpoint_seconds), agreement(comm, *this) {}
  StopReason now(double ahead) { return agreement.now(ahead); }
  StopAgreement agreement;
};

class StopTest : public ::testing::Test {
 protected:
  void SetUp() override { catch_stop_signals(); }
  void TearDown() override {
    release_stop_signals();
    unsetenv("SLURM_JOB_END_TIME");
  }
  /// Steps until all are to stop.
  StopReason steps_until_stop(Stop& stop) const {
    for (int step = 0; step < 1000; ++step) {
      const StopReason reason = stop.agreement.after_step(false).stop;
      if (reason != StopReason::none) return reason;
    }
    return StopReason::none;
  }
  const Communicator comm_{MPI_COMM_WORLD};
  const int last_ = comm_.ranks() - 1;
};

TEST_F(StopTest, GoesOnUnlessSomethingIsTheMatter) {
  Stop stop(comm_, 0, 1e6);
  EXPECT_EQ(steps_until_stop(stop), StopReason::none);
  EXPECT_EQ(stop.now(1e6), StopReason::none);
  EXPECT_EQ(stop.limit(), "");
}

TEST_F(StopTest, ASignalAtOneRankStopsAll) {
  Stop stop(comm_, 0, 0);
  if (comm_.rank() == last_) std::raise(SIGUSR1);
  EXPECT_EQ(stop.now(0), StopReason::user_signal);
  EXPECT_EQ(steps_until_stop(stop), StopReason::user_signal);
  if (comm_.rank() == 0) std::raise(SIGTERM);
  EXPECT_EQ(stop.now(0), StopReason::end_signal) << "the more urgent one counts";
}

TEST_F(StopTest, ACheckpointThatOneRankAsksForIsMadeOnceByAll) {
  Stop stop(comm_, 0, 0);
  int made = 0, made_at = 0;
  for (int step = 0; step < 1000; ++step) {
    const bool due = comm_.rank() == last_ && made < 2 && step >= made_at + 100;
    const AgreedNext next = stop.agreement.after_step(due);
    ASSERT_EQ(next.stop, StopReason::none);
    if (!next.checkpoint) continue;
    ++made;
    EXPECT_GE(step, made_at + 100);
    EXPECT_LE(step, made_at + 100 + 2 * Agreement::most_lag);
    made_at = step;
    EXPECT_EQ(comm_.smallest(step), comm_.largest(step));
  }
  EXPECT_EQ(made, 2);
  if (comm_.rank() == 0) std::raise(SIGUSR1);
  AgreedNext next;
  for (int step = 0; step < 1000 && next.stop == StopReason::none; ++step) next = stop.agreement.after_step(true);
  EXPECT_EQ(next.stop, StopReason::user_signal);
  EXPECT_FALSE(next.checkpoint) << "a stop has its own";
}

TEST_F(StopTest, AFailureAtOneRankEndsAllWithItsMessage) {
  Stop stop(comm_, 0, 0);
  if (comm_.rank() == last_) {
    stop.fail({"the disk is gone", Foreign::this_rank});
    stop.fail({"a later one"});
  }
  EXPECT_EQ(!stop.failure().message.empty(), comm_.rank() == last_);
  try {
    steps_until_stop(stop);
    ADD_FAILURE() << "not ended";
  } catch (const CollectiveError& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
    EXPECT_EQ(error.foreign(), comm_.rank() == last_ ? Foreign::this_rank : Foreign::another_rank);
  }
}

TEST_F(StopTest, TheTimeLimitLeavesRoomForACheckpointAndWhatIsAhead) {
  Stop stop(comm_, 100, 20);  // 40 s for the checkpoint, 5 s to spare
  EXPECT_EQ(stop.now(0), StopReason::none);
  EXPECT_EQ(stop.now(50), StopReason::none);
  EXPECT_EQ(stop.now(56), StopReason::time_limit);
  stop.checkpoint_took(1);  // faster than was thought
  EXPECT_EQ(stop.now(56), StopReason::none);
  EXPECT_EQ(stop.now(94), StopReason::time_limit);
  if (comm_.rank() == last_) stop.checkpoint_took(60);  // one rank is enough
  EXPECT_EQ(stop.now(0), StopReason::time_limit);
  EXPECT_EQ(stop.limit(), "1:40 (training.time_limit)");
}

TEST_F(StopTest, TheEndOfTheSlurmJobIsATimeLimit) {
  const auto end_in = [](long seconds) {
    setenv("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + seconds).c_str(), 1);
  };
  end_in(1000);
  EXPECT_EQ(Stop(comm_, 0, 1).now(900), StopReason::none);
  EXPECT_EQ(Stop(comm_, 0, 1).now(998), StopReason::time_limit);
  EXPECT_EQ(Stop(comm_, 100, 1).now(98), StopReason::time_limit) << "the earlier one counts";
  EXPECT_EQ(Stop(comm_, 5000, 1).now(998), StopReason::time_limit);
  end_in(-1000);  // a clock that is wrong must not stop every attempt at its first step
  EXPECT_EQ(Stop(comm_, 0, 1).now(0), StopReason::none);
}

}  // namespace
}  // namespace halograd::stop_mpi_test
