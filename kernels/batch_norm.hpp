#pragma once

#include <limits>

#include "kernels/bfloat16.hpp"
#include "kernels/rank_sums.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// The doubles of scratch that batch_norm_forward_training and batch_norm_backward need for up to `rows` rows.
[[nodiscard]] std::size_t batch_norm_workspace(long rows, int channels);

/// Batch normalisation over all but the channel axis (Ioffe, Szegedy, 2015), with what may follow it in the same pass:
/// y = scale (x - mean) / sqrt(var + epsilon) + shift + addend and, with `relu`, zero where that is negative and at
/// most `ceiling` (a NaN stays one). In training, mean and var are the batch's mean and biased variance.
template <class T>
struct BatchNormTraining {
  long rows = 0;
  int channels = 0;                        ///< C
  Vector<const T> x{};                     ///< (rows, C)
  Vector<const Wide<T>> scale{}, shift{};  ///< (C)
  double epsilon = 0;
  double momentum = 0;                  ///< how far the running statistics move towards the batch's
  Vector<Wide<T>> running_mean{};       ///< (C); moves towards the batch's mean
  Vector<Wide<T>> running_var{};        ///< (C); moves towards the batch's unbiased variance
  Vector<Wide<T>> saved_mean{};         ///< (C); written, for backward
  Vector<Wide<T>> saved_inverse_std{};  ///< (C); written, for backward
  Vector<const T> addend{};             ///< (rows, C), or empty: nothing is added
  bool relu = false;
  double ceiling = std::numeric_limits<double>::infinity();  ///< 6: ReLU6
  Vector<T> y{};               ///< (rows, C); may be the addend, and x where backward does not need x
  Vector<double> workspace{};  ///< batch_norm_workspace(rows, C)
  AllRows all{};               ///< mean and variance are those of all ranks' rows
};
/// Sums are in double, of a few terms each, over a partition that depends on the shape alone: the same bits for any
/// number of threads. Throws Error for fewer than 2 rows in all and for buffers that are too short.
template <class T>
void batch_norm_forward_training(const ExecutionSpace& exec, const BatchNormTraining<T>& call);

/// In inference, mean and var are the running statistics.
template <class T>
struct BatchNormInference {
  long rows = 0;
  int channels = 0;                        ///< C
  Vector<const T> x{};                     ///< (rows, C)
  Vector<const Wide<T>> scale{}, shift{};  ///< (C)
  double epsilon = 0;
  Vector<const Wide<T>> running_mean{}, running_var{};  ///< (C)
  Vector<const T> addend{};                             ///< (rows, C), or empty: nothing is added
  bool relu = false;
  double ceiling = std::numeric_limits<double>::infinity();  ///< 6: ReLU6
  Vector<T> y{};                                             ///< (rows, C); may be x or the addend
};
template <class T>
void batch_norm_forward_inference(const ExecutionSpace& exec, const BatchNormInference<T>& call);

/// The gradients of the training form, without those of what follows it but for the ceiling: dy counts as zero where y
/// is not below it.
template <class T>
struct BatchNormBackward {
  long rows = 0;
  int channels = 0;                           ///< C
  Vector<const T> x{}, dy{};                  ///< (rows, C)
  Vector<const Wide<T>> scale{}, shift{};     ///< (C); shift is read where there is a ceiling
  Vector<const Wide<T>> saved_mean{};         ///< (C); as forward left it
  Vector<const Wide<T>> saved_inverse_std{};  ///< (C); as forward left it
  Vector<T> dx{};                             ///< (rows, C), or empty: not computed; may be dy when not accumulating
  Vector<Wide<T>> dscale{}, dshift{};         ///< (C); overwritten
  double ceiling = std::numeric_limits<double>::infinity();  ///< as forward had it, without an addend
  bool accumulate = false;                                   ///< adds to dx instead of overwriting it
  bool mask = false;           ///< x is the output of a ReLU: dx, sum included, is zero where x is not positive
  Vector<double> workspace{};  ///< batch_norm_workspace(rows, C)
  AllRows all{};               ///< as forward had it; dscale and dshift are of this rank's rows alone
};
/// Throws Error for fewer than 2 rows in all and for buffers that are too short.
template <class T>
void batch_norm_backward(const ExecutionSpace& exec, const BatchNormBackward<T>& call);

}  // namespace halograd
