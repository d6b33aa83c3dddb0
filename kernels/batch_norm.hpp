#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// The doubles of scratch that batch_norm_forward_training and batch_norm_backward need for up to `rows` rows.
[[nodiscard]] std::size_t batch_norm_workspace(long rows, int channels);

/// Batch normalisation over all but the channel axis (Ioffe, Szegedy, 2015), with what may follow it in the same pass.
/// x, y (rows, C); scale, shift, and the saved mean and inverse standard deviation (C). Training: y = scale (x - mean)
/// / sqrt(var + epsilon) + shift with the batch's mean and biased variance; an addend (rows, C), where not empty, is
/// added to y, and with `relu` y is zero where it would be negative (a NaN stays one). running_mean and running_var
/// move by `momentum` towards the batch's mean and unbiased variance. Sums are in double, of a few terms each, over a
/// partition that depends on the shape alone: the same bits for any number of threads. y may be the addend, and x where
/// backward does not need it. Throws Error for fewer than 2 rows.
template <class T>
void batch_norm_forward_training(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                 Vector<const T> scale, Vector<const T> shift, double epsilon, double momentum,
                                 Vector<T> running_mean, Vector<T> running_var, Vector<T> saved_mean,
                                 Vector<T> saved_inverse_std, Vector<const T> addend, bool relu, Vector<T> y,
                                 Vector<double> workspace);

/// Inference: with the running mean and variance. y may be x or the addend.
template <class T>
void batch_norm_forward_inference(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                  Vector<const T> scale, Vector<const T> shift, double epsilon,
                                  Vector<const T> running_mean, Vector<const T> running_var, Vector<const T> addend,
                                  bool relu, Vector<T> y);

/// Gradients of the training form without what follows it: dscale, dshift (C) are overwritten; dx (rows, C), not
/// computed where empty, with `accumulate` added to dx. With `mask`, x is the output of a ReLU and dx, sum included, is
/// zero where x is not positive. dx may be dy when not accumulating. Throws Error for fewer than 2 rows.
template <class T>
void batch_norm_backward(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x, Vector<const T> dy,
                         Vector<const T> scale, Vector<const T> saved_mean, Vector<const T> saved_inverse_std,
                         Vector<T> dx, Vector<T> dscale, Vector<T> dshift, bool accumulate, bool mask,
                         Vector<double> workspace);

}  // namespace halograd
