#include "kernels/loss.hpp"

#include <limits>

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

/// One row of logits: its loss, whether its largest logit is the label's, and, where wanted, its gradient.
template <class T>
struct CrossEntropyRow {
  const T* logits;
  const std::int32_t* labels;
  T* gradient;  // null: not wanted
  int classes;
  double scale;
  double bad_label_loss;

  KOKKOS_FUNCTION void operator()(const long row, double& loss, long& correct) const {
    const T* const from = logits + row * classes;
    const std::int32_t label = labels[row];
    int best = 0;
    for (int k = 1; k < classes; ++k) {
      if (from[k] > from[best]) best = k;
    }
    const T largest = from[best];  // subtracted, so that no exponential overflows
    double sum = 0;
    for (int k = 0; k < classes; ++k) {
      sum += static_cast<double>(math::exp(from[k] - largest));
    }
    const bool inside = label >= 0 && label < classes;
    const double distance = static_cast<double>(largest) - static_cast<double>(from[inside ? label : best]);
    const double row_loss = inside ? math::log(sum) + distance : bad_label_loss;
    loss += row_loss;
    correct += inside && best == label && row_loss == row_loss ? 1 : 0;
    if (gradient == nullptr) return;
    T* const to = gradient + row * classes;
    const double share = scale / sum;
    for (int k = 0; k < classes; ++k) {
      const double softmax_share = static_cast<double>(math::exp(from[k] - largest)) * share;
      to[k] = static_cast<T>(k == label ? softmax_share - scale : softmax_share);
    }
  }
};

}  // namespace

template <class T>
LossSum softmax_cross_entropy(const ExecutionSpace& exec, long rows, int classes, Vector<const T> logits,
                              Vector<const std::int32_t> labels, double scale, Vector<T> gradient) {
  HALOGRAD_REQUIRE(rows >= 0 && classes >= 1, "softmax_cross_entropy: ", rows, " rows of ", classes, " classes");
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(classes);
  HALOGRAD_REQUIRE(logits.extent(0) >= values && (gradient.extent(0) == 0 || gradient.extent(0) >= values),
                   "softmax_cross_entropy: ", rows, " rows of ", classes, " classes need ", values,
                   " values; logits have ", logits.extent(0), ", the gradient ", gradient.extent(0));
  HALOGRAD_REQUIRE(labels.extent(0) >= static_cast<std::size_t>(rows), "softmax_cross_entropy: ", rows, " rows, but ",
                   labels.extent(0), " labels");
  LossSum result;
  Kokkos::parallel_reduce(
      label("halograd::softmax_cross_entropy"), FlatRange(exec, 0, rows),
      CrossEntropyRow<T>{logits.data(), labels.data(), gradient.extent(0) > 0 ? gradient.data() : nullptr, classes,
                         scale, std::numeric_limits<double>::quiet_NaN()},
      result.loss, result.correct);
  return result;
}

template LossSum softmax_cross_entropy<float>(const ExecutionSpace&, long, int, Vector<const float>,
                                              Vector<const std::int32_t>, double, Vector<float>);
template LossSum softmax_cross_entropy<double>(const ExecutionSpace&, long, int, Vector<const double>,
                                               Vector<const std::int32_t>, double, Vector<double>);

}  // namespace halograd
