#include "support/stop_signals.hpp"

#include <atomic>
#include <csignal>

namespace halograd {
namespace {

std::atomic<bool> user_signal{false}, end_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch nothing that locks");

struct sigaction old_user {};
struct sigaction old_end {};

void take_note(int signal) {
  if (signal == SIGUSR1) {
    user_signal = true;
  } else if (end_signal.exchange(true)) {
    std::signal(SIGTERM, SIG_DFL);
    std::raise(SIGTERM);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = take_note;
  action.sa_flags = SA_RESTART;  // reads and waits go on as if nothing had happened
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, &old_user);
  sigaction(SIGTERM, &action, &old_end);
}

int stop_signal() {
  if (end_signal) return SIGTERM;
  return user_signal ? SIGUSR1 : 0;
}

void release_stop_signals() {
  sigaction(SIGUSR1, &old_user, nullptr);
  sigaction(SIGTERM, &old_end, nullptr);
  user_signal = end_signal = false;
}

}  // namespace halograd
