#pragma once

#include <vector>

#include "support/table.hpp"

/// What training makes small and what models are judged by, one row each. A new loss is a row in losses.cpp and, where
/// there is none for it yet, a kernel.
namespace halograd {

/// What an evaluation adds up.
struct ScoreSums {
  double images = 0;
  double loss_sum = 0, inputs = 0;  ///< of the network: images, or the fields of view that it had of them
  double correct = 0, labels = 0;   ///< labels predicted, of all
  double overlap = 0, either = 0;   ///< labels that are 1 and predicted so; that are 1 or predicted so
  [[nodiscard]] double loss() const { return inputs > 0 ? loss_sum / inputs : 0; }
};

/// What models are judged by on the test set.
struct Metric {
  const char* name;        ///< in files: "accuracy"
  Fact<const char*> word;  ///< before a score and in headings; may be empty
  Fact<bool> per_cent;     ///< whether a score of 1 is printed as 100 %
  Fact<bool> larger_is_better;
  Fact<double (*)(const ScoreSums& sums)> score;
};

const std::vector<Metric>& metrics();

/// The score as a number that is larger for a better model.
double goodness(const std::string& metric, double score);

struct LossCall;  // loss.hpp

/// Values that a network has to give for each label.
enum class LossOutputs {
  per_class,        ///< as many as there are classes
  one,              ///< one; labels are 0 or 1
  per_class_or_one  ///< either; one is compared with the label's number
};

struct PredictionCall;  // loss.hpp

/// What a network's outputs say of a label, where nobody knows it.
struct Predictions {
  const char* dataset;  ///< in files: "scores"
  bool of_classes;      ///< one score per class, or one for the second of two; else plain numbers
  void (*from_outputs)(const PredictionCall& call);
};

struct Loss {
  const char* name;
  Fact<const char*> meaning;
  Fact<const char*> metric;
  Fact<LossOutputs> outputs;
  Fact<bool> takes_real_labels;
  Fact<bool> smooths_labels;  ///< takes loss.label_smoothing
  Fact<void (*)(const LossCall& call)> launch;
  Fact<Predictions> predictions;
};

const std::vector<Loss>& losses();

/// The row of loss.name. Throws Error where there is none.
const Loss& loss_named(const std::string& name);

/// The metric of models trained with this loss.
const Metric& metric_of(const std::string& loss);

}  // namespace halograd
