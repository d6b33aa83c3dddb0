#pragma once

#include "kernels/codec.hpp"

namespace halograd {

/// Seconds per value of the two ends of a codec.
struct CodecSpeed {
  double encode = 0;  ///< encode_difference
  double decode = 0;  ///< add_decoded
};

/// On vectors of 16 MiB, with the threads in use, in the mean over a fifth of a second: beside whatever else runs on
/// this machine, as a step is. Takes and gives back 50 MiB.
CodecSpeed measure_codec_speed(const ExecutionSpace& exec, const Codec& codec);

}  // namespace halograd
