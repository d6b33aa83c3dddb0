#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// Sums over the rows of a batch; a row is what one label speaks of.
struct LossSum {
  double loss = 0;
  long correct = 0;  ///< rows whose prediction is the label
  // binary_cross_entropy:
  long overlap = 0;  ///< rows that are 1 and predicted so
  long either = 0;   ///< rows that are 1 or predicted so
};

/// Where a loss adds them up: in device memory, so that nothing waits for it before read().
class LossMemory {
 public:
  LossMemory() : sums_("halograd::loss", count) {}
  /// What `exec`'s work so far leaves; fences.
  [[nodiscard]] LossSum read(const ExecutionSpace& exec) const;
  [[nodiscard]] Vector<double> sums() const { return sums_; }

  static constexpr unsigned count = 4;  ///< in the order of LossSum

 private:
  Buffer<double> sums_;
};

/// The outputs of a network for the rows of a batch, and what they should have been.
template <class T>
struct LossBatch {
  long rows = 0;                        ///< N
  int width = 1;                        ///< values per row
  Vector<const T> outputs{};            ///< (N, width)
  Vector<const std::int32_t> labels{};  ///< (N)
  double scale = 1;                     ///< factor of the gradient
  Vector<T> gradient{};                 ///< (N, width), or empty: not written; may be the outputs themselves
};

/// Turns the logits of each row into probabilities, in place: exp(x_k) / sum_j exp(x_j). values (rows, width).
template <class T>
void softmax(const ExecutionSpace& exec, long rows, int width, Vector<T> values);

/// Softmax cross-entropy of outputs that are the logits of `width` classes, labels in 0..width-1. With smoothing s the
/// target of a row is (1 - s) onehot + s / width (Szegedy et al., 2016). gradient = scale (softmax - target). Leaves in
/// `memory` the sum over rows of -sum_k target_k log softmax_k, which a label out of range makes NaN, and as correct
/// the rows whose largest logit (the first, of equals) is the label's. The same bits for the same number of threads.
template <class T>
void softmax_cross_entropy(const ExecutionSpace& exec, const LossBatch<T>& batch, double smoothing,
                           const LossMemory& memory);

/// Binary cross-entropy of the sigmoid of logits, one per row, against labels 0 or 1; another label makes the loss NaN.
/// With smoothing s the target t is 1 - s / 2 or s / 2. Written as max(x, 0) - x t + log(1 + exp(-|x|)), which does not
/// overflow. gradient = scale (sigmoid(x) - t). A logit above 0 predicts 1. Throws Error unless width is 1.
template <class T>
void binary_cross_entropy(const ExecutionSpace& exec, const LossBatch<T>& batch, double smoothing,
                          const LossMemory& memory);

/// Mean over a row's values of (output - target)^2, where the target is the label's onehot or, with one value per row,
/// the label as a number; gradient = scale times the derivative. Correct are rows whose largest value is the label's
/// or, with one value, that lie within 1/2 of it.
template <class T>
void mean_squared_error(const ExecutionSpace& exec, const LossBatch<T>& batch, const LossMemory& memory);

/// The same with real numbers as targets (N, width) instead of labels; no row is counted as correct.
template <class T>
void mean_squared_error(const ExecutionSpace& exec, const LossBatch<T>& batch, Vector<const T> targets,
                        const LossMemory& memory);

}  // namespace halograd
