#include "support/stop_signals.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace halograd::stop_signals_test {
namespace {

class StopSignals : public ::testing::Test {
 protected:
  void SetUp() override { catch_stop_signals(); }
  void TearDown() override { release_stop_signals(); }
};

TEST_F(StopSignals, AreNoted) {
  EXPECT_EQ(stop_signal(), 0);
  std::raise(SIGUSR1);
  EXPECT_EQ(stop_signal(), SIGUSR1);
  std::raise(SIGUSR1);  // as often as one likes
  std::raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
  std::raise(SIGUSR1);
  EXPECT_EQ(stop_signal(), SIGTERM);
}

TEST_F(StopSignals, AreForgottenWhenReleased) {
  std::raise(SIGUSR1);
  release_stop_signals();
  EXPECT_EQ(stop_signal(), 0);
}

TEST_F(StopSignals, OneRequestToEndMayComeTwice) {
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
}

TEST(StopSignalsDeathTest, ASecondRequestToEndIsObeyedAtOnce) {
  const auto ask_twice = [] {
    catch_stop_signals();
    std::raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(ask_twice(), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace halograd::stop_signals_test
