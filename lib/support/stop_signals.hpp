#pragma once

namespace halograd {

/// From now on SIGUSR1 and SIGTERM only leave a note, which stop_signal() reads; another SIGTERM, two seconds after the
/// first or later, ends the process as the first one used to.
void catch_stop_signals();

/// SIGUSR1, SIGTERM (which stands above SIGUSR1), or 0: neither has come.
int stop_signal();

/// Forgets what has come, and gives the signals back their old handling.
void release_stop_signals();

}  // namespace halograd
