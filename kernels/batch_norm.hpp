#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// The doubles of scratch that batch_norm_forward_training and batch_norm_backward need for up to `rows` rows.
[[nodiscard]] std::size_t batch_norm_workspace(long rows, int channels);

/// Batch normalisation over all but the channel axis (Ioffe, Szegedy, 2015). x, y (rows, C); scale, shift, and the
/// saved mean and inverse standard deviation (C). Training: y = scale (x - mean) / sqrt(var + epsilon) + shift with the
/// batch's mean and biased variance; running_mean and running_var move by `momentum` towards the batch's mean and
/// unbiased variance. Sums are in double, over a partition that depends on the shape alone: the same bits for any
/// number of threads. y may be x, where backward does not need x. Throws Error for fewer than 2 rows.
template <class T>
void batch_norm_forward_training(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                 Vector<const T> scale, Vector<const T> shift, double epsilon, double momentum,
                                 Vector<T> running_mean, Vector<T> running_var, Vector<T> saved_mean,
                                 Vector<T> saved_inverse_std, Vector<T> y, Vector<double> workspace);

/// Inference: with the running mean and variance. y may be x.
template <class T>
void batch_norm_forward_inference(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                  Vector<const T> scale, Vector<const T> shift, double epsilon,
                                  Vector<const T> running_mean, Vector<const T> running_var, Vector<T> y);

/// Gradients of the training form: dscale, dshift (C) are overwritten; dx (rows, C), with `accumulate` added to dx.
/// dx may be dy when not accumulating. Throws Error for fewer than 2 rows.
template <class T>
void batch_norm_backward(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x, Vector<const T> dy,
                         Vector<const T> scale, Vector<const T> saved_mean, Vector<const T> saved_inverse_std,
                         Vector<T> dx, Vector<T> dscale, Vector<T> dshift, bool accumulate, Vector<double> workspace);

}  // namespace halograd
