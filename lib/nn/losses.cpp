#include "nn/losses.hpp"

#include <cmath>

#include "kernels/activation.hpp"
#include "nn/loss.hpp"

namespace halograd {
namespace {

double accuracy(const ScoreSums& sums) {
  return sums.labels > 0 ? sums.correct / sums.labels : 0;
}

double intersection_over_union(const ScoreSums& sums) {
  return sums.either > 0 ? sums.overlap / sums.either : 1;  // nothing to find, and nothing found
}

double root_of_mean_square(const ScoreSums& sums) {
  return std::sqrt(sums.loss());
}

void launch_cross_entropy(const LossCall& call) {
  softmax_cross_entropy(call.exec, call.batch, call.label_smoothing, call.memory);
}

void launch_binary_cross_entropy(const LossCall& call) {
  binary_cross_entropy(call.exec, call.batch, call.label_smoothing, call.memory);
}

void launch_mean_squared_error(const LossCall& call) {
  if (call.real_labels) {
    mean_squared_error(call.exec, call.batch, call.targets, call.memory);
  } else {
    mean_squared_error(call.exec, call.batch, call.memory);
  }
}

void predict_softmax(const PredictionCall& call) {
  softmax(call.exec, call.rows, call.width, call.values);
}

void predict_sigmoid(const PredictionCall& call) {
  activation_forward<float>(call.exec, Activation::sigmoid, 0, call.values, call.values);
}

void predict_outputs(const PredictionCall& /*call*/) {}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> rows{{"accuracy", "", true, true, accuracy},
                                        {"iou", "IoU", true, true, intersection_over_union},
                                        {"error", "error", false, false, root_of_mean_square}};
  return rows;
}

double goodness(const std::string& metric, double score) {
  return row_of(metrics(), metric, "metric").larger_is_better ? score : -score;
}

const std::vector<Loss>& losses() {
  static const std::vector<Loss> rows{
      {"cross_entropy", "softmax cross-entropy with a label's class", "accuracy", LossOutputs::per_class, false, true,
       launch_cross_entropy, Predictions{"scores", true, predict_softmax}},
      {"binary_cross_entropy", "cross-entropy of the sigmoid of one output with labels 0 and 1", "iou",
       LossOutputs::one, false, true, launch_binary_cross_entropy, Predictions{"scores", true, predict_sigmoid}},
      {"mean_squared_error", "mean squared difference from the label's one-hot vector, its number, or real labels",
       "error", LossOutputs::per_class_or_one, true, false, launch_mean_squared_error,
       Predictions{"values", false, predict_outputs}}};
  return rows;
}

const Loss& loss_named(const std::string& name) {
  return row_of(losses(), name, "loss.name");
}

const Metric& metric_of(const std::string& loss) {
  return row_of(metrics(), *loss_named(loss).metric, "metric");
}

}  // namespace halograd
