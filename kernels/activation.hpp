#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// Functions of one value:
///   leaky_relu  x where x > 0, else slope x
///   relu6       min(max(x, 0), 6)
///   sigmoid     1 / (1 + exp(-x))
///   tanh        scale tanh(x)
///   gelu        x P(X < x), X normal, by the error function (Hendrycks, Gimpel, 2016; PyTorch's default)
///   silu        x sigmoid(x) (Elfwing et al., 2018)
enum class Activation { leaky_relu, relu6, sigmoid, tanh, gelu, silu };

/// Whether activation_backward takes the function's output, so that its input need not be kept; else its input.
bool differentiates_output(Activation function);

/// y = function(x). x and y (n); y may be x. `number` (0 or more) is leaky_relu's slope or tanh's scale.
template <class T>
void activation_forward(const ExecutionSpace& exec, Activation function, double number, Vector<const T> x, Vector<T> y);

/// dx = dy function'(x); with `accumulate`, added to dx. `known` is the forward pass's output or input, as
/// differentiates_output says. dx may be dy when not accumulating.
template <class T>
void activation_backward(const ExecutionSpace& exec, Activation function, double number, Vector<const T> known,
                         Vector<const T> dy, Vector<T> dx, bool accumulate);

}  // namespace halograd
