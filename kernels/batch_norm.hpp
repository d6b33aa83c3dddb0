#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// Batch normalisation over all but the channel axis (Ioffe, Szegedy, 2015). x, y (rows, C); scale, shift, and the saved
/// mean and inverse standard deviation (C). Training: y = scale (x - mean) / sqrt(var + epsilon) + shift with the batch's mean and biased
/// variance; running_mean and running_var move by `momentum` towards the batch's mean and unbiased variance.
/// Sums are in double; deterministic for a given number of threads. Throws Error for fewer than 2 rows.
template <class T>
void batch_norm_forward_training(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                 Vector<const T> scale, Vector<const T> shift, double epsilon, double momentum,
                                 Vector<T> running_mean, Vector<T> running_var, Vector<T> saved_mean,
                                 Vector<T> saved_inverse_std, Vector<T> y);

/// Inference: with the running mean and variance. y may be x.
template <class T>
void batch_norm_forward_inference(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                  Vector<const T> scale, Vector<const T> shift, double epsilon,
                                  Vector<const T> running_mean, Vector<const T> running_var, Vector<T> y);

/// Gradients of the training form: dscale, dshift (C) are overwritten; dx (rows, C), with `accumulate` added to dx.
template <class T>
void batch_norm_backward(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x, Vector<const T> dy,
                         Vector<const T> scale, Vector<const T> saved_mean, Vector<const T> saved_inverse_std,
                         Vector<T> dx, Vector<T> dscale, Vector<T> dshift, bool accumulate);

}  // namespace halograd
