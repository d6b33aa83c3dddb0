#pragma once

#include "kernels/shape.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// y = max(x, 0). x and y (n); y may be x.
template <class T>
void relu_forward(const ExecutionSpace& exec, Vector<const T> x, Vector<T> y);

/// dx = dy where y > 0, else 0; with `accumulate`, added to dx. y is relu_forward's output. dx may be dy when not
/// accumulating.
template <class T>
void relu_backward(const ExecutionSpace& exec, Vector<const T> y, Vector<const T> dy, Vector<T> dx, bool accumulate);

/// z = x + y, all (n); z may be x or y.
template <class T>
void add_forward(const ExecutionSpace& exec, Vector<const T> x, Vector<const T> y, Vector<T> z);

/// dx = dy, or dx += dy with `accumulate`.
template <class T>
void copy_gradient(const ExecutionSpace& exec, Vector<const T> dy, Vector<T> dx, bool accumulate);

/// y = x / (1 - p) where random_uniform(key, index) >= p, else 0 (inverted dropout; Srivastava et al., JMLR 2014). y
/// may be x. Backward is the same function on the gradients, with the same key. Of images that are parts of others,
/// whose shape is `whole`, the indices are those of the others: all parts together get what the whole would.
template <class T>
void dropout(const ExecutionSpace& exec, Vector<const T> x, Vector<T> y, double probability, std::uint64_t key,
             bool accumulate, const Shape& whole = {}, const Box& part = {});

/// y = x in another format, each value rounded where it has less room: any two of float, double and Bfloat16. x and
/// y (n).
template <class From, class To>
void convert_values(const ExecutionSpace& exec, Vector<const From> x, Vector<To> y);

}  // namespace halograd
