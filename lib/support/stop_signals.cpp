#include "support/stop_signals.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace halograd {
namespace {

std::atomic<bool> user_signal{false};
std::atomic<std::int64_t> end_signal{0};  // when the first SIGTERM came, in nanoseconds of the steady clock; 0: not yet
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may touch nothing that locks");

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t another_after = 2 * second;  // Slurm and the launcher may both pass on one and the same

struct sigaction old_user {};
struct sigaction old_end {};

void take_note(int signal) {
  if (signal == SIGUSR1) {
    user_signal = true;
    return;
  }
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  const std::int64_t now = clock.tv_sec * second + clock.tv_nsec;
  std::int64_t first = 0;
  if (end_signal.compare_exchange_strong(first, now) || now - first < another_after) return;
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
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
  if (end_signal != 0) return SIGTERM;
  return user_signal ? SIGUSR1 : 0;
}

void release_stop_signals() {
  sigaction(SIGUSR1, &old_user, nullptr);
  sigaction(SIGTERM, &old_end, nullptr);
  user_signal = false;
  end_signal = 0;
}

}  // namespace halograd
