#pragma once

namespace halograd {

/// What `halograd train` ends with where it was stopped by a signal or a time limit and has left a checkpoint, or where
/// another rank has died: "start me again". EX_TEMPFAIL of sysexits.h. 0: done; anything else: an error.
inline constexpr int requeue_status = 75;

}  // namespace halograd
