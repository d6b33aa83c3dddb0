#pragma once

#include <array>
#include <string>

#include "io/formats.hpp"
#include "io/metrics.hpp"

/// The quantities of a metrics file: one table for the writer, the reader and the documentation's test.
namespace halograd {

template <class Row>
struct MetricsColumn {
  const char* path;
  const char* unit;  ///< "1": a plain number
  const char* description;
  double (*value)(const Row& row);
  bool per_rank = true;  ///< (rows, R), else (rows): the same on all ranks
  bool integer = false;
  bool optional = false;  ///< files of older versions lack it: read as NaN, or -1 where it is an integer
};

/// A column's path or description for a run whose scores are of this metric: the tables below say "accuracy".
inline std::string for_metric(std::string text, const std::string& metric) {
  const std::string standard = "accuracy";
  const auto at = text.find(standard);
  return at == std::string::npos ? text : text.replace(at, standard.size(), metric);
}

inline constexpr std::array<MetricsColumn<StepMetrics>, 13> step_columns{{
    {"/step/loss", "1", "mean loss over this rank's images of the step",
     [](const StepMetrics& row) { return row.loss; }},
    {"/step/learning_rate", "1", "learning rate after the schedule",
     [](const StepMetrics& row) { return row.learning_rate; }},
    {"/step/images_per_second", "1/s", "this rank's images over the step's wall time",
     [](const StepMetrics& row) { return row.images_per_second; }},
    {"/step/wait_seconds", "s", "time waiting for neighbours", [](const StepMetrics& row) { return row.wait_seconds; }},
    {"/step/compute_seconds", "s", "time in forward and backward",
     [](const StepMetrics& row) { return row.compute_seconds; }},
    {"/step/update_seconds", "s", "time in mixing and optimizer",
     [](const StepMetrics& row) { return row.update_seconds; }},
    {"/step/data_seconds", "s", "time waiting for the batch", [](const StepMetrics& row) { return row.data_seconds; }},
    {"/step/progress_seconds", "s", "processor time of the thread that keeps puts going",
     [](const StepMetrics& row) { return row.progress_seconds; }},
    // a double holds every count below 2^53 exactly
    {"/step/bytes_sent", "B", "bytes sent to other ranks",
     [](const StepMetrics& row) { return static_cast<double>(row.bytes_sent); }, true, true},
    {"/step/skipped", "1", "1 where this rank left its update out: loss or gradient not finite",
     [](const StepMetrics& row) { return static_cast<double>(row.skipped); }, true, true},
    {"/step/averaging_period", "1", "steps from one exchange to the next; 0: none",
     [](const StepMetrics& row) { return static_cast<double>(row.averaging_period); }, true, true},
    {"/step/samples", "1", "images that all ranks together had been dealt before the step",
     [](const StepMetrics& row) { return static_cast<double>(row.samples); }, true, true, true},
    {"/step/rank", "1", "the rank that made the step",
     [](const StepMetrics& row) { return static_cast<double>(row.rank); }, true, true, true},
}};

inline constexpr std::array<MetricsColumn<EpochMetrics>, 11> epoch_columns{{
    {"/epoch/train_loss", "1", "mean loss over this rank's images of the epoch",
     [](const EpochMetrics& row) { return row.train_loss; }},
    {"/epoch/test_loss", "1", "loss of this rank's replica on the test set",
     [](const EpochMetrics& row) { return row.test_loss; }},
    {"/epoch/test_accuracy", "1", "accuracy of this rank's replica on the test set",
     [](const EpochMetrics& row) { return row.test_score; }},
    {"/epoch/images", "1", "images that this rank trained on",
     [](const EpochMetrics& row) { return static_cast<double>(row.images); }, true, true, true},
    {"/epoch/evaluation_seconds", "s", "time in which this rank evaluated instead of training",
     [](const EpochMetrics& row) { return row.evaluation_seconds; }, true, false, true},
    {"/epoch/wait_seconds", "s", "time that this rank waited for others outside of steps",
     [](const EpochMetrics& row) { return row.wait_seconds; }, true, false, true},
    {"/epoch/mean_model_loss", "1", "loss of the mean of the replicas on the test set",
     [](const EpochMetrics& row) { return row.mean_model_loss; }, false},
    {"/epoch/mean_model_accuracy", "1", "accuracy of the mean of the replicas on the test set",
     [](const EpochMetrics& row) { return row.mean_model_score; }, false},
    {"/epoch/consensus_distance", "1", "sqrt(mean over replicas of |x_i - mean x|^2) of the parameters",
     [](const EpochMetrics& row) { return row.consensus_distance; }, false},
    {"/epoch/seconds", "s", "wall time of the epoch", [](const EpochMetrics& row) { return row.seconds; }, false},
    {"/epoch/steps", "1", "steps done at the end of the epoch",
     [](const EpochMetrics& row) { return static_cast<double>(row.steps); }, false, true},
}};

}  // namespace halograd
