#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// One step of SGD as PyTorch defines it: g += weight_decay x; v = momentum v + g; x -= rate (nesterov ? g + momentum v
/// : v). All (n). On the first step v = g: a zero velocity gives just that. With momentum 0, velocity is not touched
/// and may be empty.
struct SgdStep {
  double rate, momentum, weight_decay;
  bool nesterov;
};
template <class T>
void sgd(const ExecutionSpace& exec, const SgdStep& step, Vector<T> x, Vector<const T> gradient, Vector<T> velocity);

/// Adam (Kingma, Ba, 2015) and, with `decoupled`, AdamW (Loshchilov, Hutter, 2019), bias-corrected for step number
/// `count` = 1, 2, ...
struct AdamStep {
  double rate, beta1, beta2, epsilon, weight_decay;
  bool decoupled;
  long count;
};
template <class T>
void adam(const ExecutionSpace& exec, const AdamStep& step, Vector<T> x, Vector<const T> gradient,
          Vector<T> first_moment, Vector<T> second_moment);

/// Adagrad (Duchi, Hazan, Singer, 2011): s += g^2; x -= rate g / (sqrt(s) + epsilon).
struct AdagradStep {
  double rate, epsilon, weight_decay;
};
template <class T>
void adagrad(const ExecutionSpace& exec, const AdagradStep& step, Vector<T> x, Vector<const T> gradient, Vector<T> sum);

}  // namespace halograd
