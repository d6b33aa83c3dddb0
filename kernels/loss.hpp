#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// Sum over a batch.
struct LossSum {
  double loss = 0;
  long correct = 0;  ///< rows whose largest logit (the first, of equals) is the label's
};

/// Softmax cross-entropy. logits (N, classes), labels (N) in 0..classes-1. gradient (N, classes) = scale (softmax -
/// onehot), not written if it is empty; may be the logits themselves. Returns the sum over rows of -log softmax[label],
/// which a label out of range makes NaN; fences. The same bits for the same number of threads.
template <class T>
LossSum softmax_cross_entropy(const ExecutionSpace& exec, long rows, int classes, Vector<const T> logits,
                              Vector<const std::int32_t> labels, double scale, Vector<T> gradient);

}  // namespace halograd
