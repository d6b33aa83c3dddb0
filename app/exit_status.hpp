#pragma once

namespace halograd {

/// What the program ends with where a training was stopped by a signal or a time limit and has left a checkpoint, where
/// another rank has died, or where a disk, a device or a library has failed: "start me again". EX_TEMPFAIL of
/// sysexits.h. 0: done; anything else: an error.
inline constexpr int requeue_status = 75;

}  // namespace halograd
