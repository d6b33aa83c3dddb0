#pragma once

namespace halograd {

/// Lets this thread, and threads that it starts from now on, take floats below the normal ones (2^-126, of doubles
/// 2^-1022) as zero and give zero for them, where the processor can: false where it cannot. Momentum of weights that
/// get no gradient decays into such numbers and stays among them, and each operation on one costs a hundred others.
bool flush_subnormals();

}  // namespace halograd
