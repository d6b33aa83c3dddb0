#include "mpi/wait.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace halograd::wait_test {
namespace {

TEST(WaitAndReport, ReportsOnceWhenItLastsLonger) {
  int probes = 0, reports = 0;
  const double waited = wait_and_report([&] { return ++probes == 5; }, 0.0, [&](double) { ++reports; });
  EXPECT_EQ(probes, 5);
  EXPECT_EQ(reports, 1);
  EXPECT_GT(waited, 0.0);
}

TEST(WaitAndReport, SaysNothingOfAShortWait) {
  wait_and_report([] { return true; }, 3600.0, [](double) { ADD_FAILURE() << "reported"; });
}

TEST(WaitAndReport, ReportsACallThatItselfWaited) {
  const auto blocks = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return true;
  };
  double reported = 0.0;
  const double waited = wait_and_report(blocks, 0.001, [&](double seconds) { reported = seconds; });
  EXPECT_GE(waited, 0.002);
  EXPECT_GE(reported, 0.002);
}

}  // namespace
}  // namespace halograd::wait_test
