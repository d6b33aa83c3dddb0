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

/// Softmax cross-entropy. logits (N, classes), labels (N) in 0..classes-1. With smoothing s the target of a row is (1 -
/// s) onehot + s / classes (Szegedy et al., 2016). gradient (N, classes) = scale (softmax - target), not written if it
/// is empty; may be the logits themselves. Leaves in `memory`, which it returns, the sum over rows of -sum_k target_k
/// log softmax_k, which a label out of range makes NaN, and as correct the rows whose largest logit (the first, of
/// equals) is the label's. The same bits for the same number of threads.
template <class T>
const LossMemory& softmax_cross_entropy(const ExecutionSpace& exec, long rows, int classes, Vector<const T> logits,
                                        Vector<const std::int32_t> labels, double scale, Vector<T> gradient,
                                        const LossMemory& memory, double smoothing = 0);

/// Binary cross-entropy of the sigmoid of logits (N) against labels (N), 0 or 1; another label makes the loss NaN.
/// Written as max(x, 0) - x label + log(1 + exp(-|x|)), which does not overflow. gradient (N) = scale (sigmoid(x) -
/// label), as above. A logit above 0 predicts 1.
template <class T>
const LossMemory& binary_cross_entropy(const ExecutionSpace& exec, long rows, Vector<const T> logits,
                                       Vector<const std::int32_t> labels, double scale, Vector<T> gradient,
                                       const LossMemory& memory);

/// Mean over a row's `width` values of (x - target)^2, where the target is the label's onehot or, with one value a row,
/// the label as a number. x, gradient (N, width), gradient = scale times the derivative. Correct are rows whose largest
/// value is the label's or, with one value, that lie within 1/2 of it.
template <class T>
const LossMemory& mean_squared_error(const ExecutionSpace& exec, long rows, int width, Vector<const T> x,
                                     Vector<const std::int32_t> labels, double scale, Vector<T> gradient,
                                     const LossMemory& memory);

/// The same with real numbers as targets (N, width); none is counted as correct.
template <class T>
const LossMemory& mean_squared_error(const ExecutionSpace& exec, long rows, int width, Vector<const T> x,
                                     Vector<const T> targets, double scale, Vector<T> gradient,
                                     const LossMemory& memory);

}  // namespace halograd
