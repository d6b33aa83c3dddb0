#pragma once

#include <functional>

#include "kernels/types.hpp"

/// What this machine can do at best with the threads in use, for scale.
namespace halograd {

/// Floating-point operations a second in float of multiply-adds that touch no memory, on all threads at once: the best
/// of several short runs. A multiply-add counts as two.
double measure_fma_peak(const ExecutionSpace& exec);

/// The same of products of values of 16 bits by what this CPU has for them (host/bf16_units.hpp), on tiles that stay in
/// the first-level cache; 0 where it has nothing faster than floats, and on devices.
double measure_bf16_peak(const ExecutionSpace& exec);

/// Bytes a second of a = b + s c on vectors of 64 MiB each, far beyond the caches (the triad of McCalpin's STREAM,
/// which counts 12 bytes an element): the best of several runs. Takes and gives back 192 MiB.
double measure_memory_peak(const ExecutionSpace& exec);

/// The same in the mean over a fifth of a second, beside whatever else runs on this machine, as a step is.
double measure_memory_bandwidth(const ExecutionSpace& exec);

/// How often a second all threads at once do the same few multiply-adds (some ten microseconds on a CPU), in the mean
/// until `is_done`, which is given the seconds so far: what of the machine's cores is left to computing meanwhile.
double measure_passes(const ExecutionSpace& exec, const std::function<bool(double)>& is_done);

}  // namespace halograd
