#pragma once

#include <array>
#include <cstdint>

#include "kernels/types.hpp"

namespace halograd {

/// The projections of a vector that sketch() takes.
constexpr int sketch_width = 16;

/// sum_i s_ki x_i in double for sketch_width vectors s_k of random signs, which follow from `key`; fences. The mean
/// over k of the square is ||x||^2 with a standard deviation of sqrt(2 / sketch_width) of it (Alon, Matias, Szegedy,
/// 1996), and projections of different vectors with one key may be subtracted. The same bits on every device.
std::array<double, sketch_width> sketch(const ExecutionSpace& exec, std::uint64_t key, Vector<const float> x);

}  // namespace halograd
