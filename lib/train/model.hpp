#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"
#include "data/dataset.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"

/// From a run file, its data and its checkpoints to a network: for training, evaluation and conversion alike. What is
/// built computes in full precision unless a precision is named.
namespace halograd {

/// What the run file's network sees at once of images of this shape: all, or a field of view. Throws Error where that
/// does not fit.
Shape input_of(const RunConfig& config, const Shape& image);

/// The labels of this set that belong to an input, and how outputs are compared with them.
Target target_of(const RunConfig& config, const Dataset& data);

/// The run file's network for these data, or this rank's part of it. Throws Error where they do not fit each other.
std::unique_ptr<Network> build_model(const RunConfig& config, const Dataset& data, int largest_batch,
                                     Precision precision = Precision::full, std::unique_ptr<Space> space = nullptr);

/// The same for images of this shape and their labels.
std::unique_ptr<Network> build_model(const RunConfig& config, const Shape& input, const Target& target,
                                     int largest_batch, Precision precision = Precision::full,
                                     std::unique_ptr<Space> space = nullptr);

/// The run file's network without its data: the target is what its outputs fit. `classes` are a reference network's.
std::unique_ptr<Network> build_model(const RunConfig& config, const Shape& input, int classes, int largest_batch);

/// Gives `replica` the mean weights and statistics of a checkpoint. Throws Error where they differ in length.
void load_mean(const std::string& checkpoint, const Replica& replica);

/// A network's replica with the weights and statistics of one rank of a checkpoint of it, or the mean where `rank` is
/// below 0. Throws Error as above, and where there is no such rank.
Replica checkpoint_replica(const std::string& checkpoint, const Network& network, int rank);

/// A network's replica with the mean weights and statistics of a checkpoint of it.
Replica mean_replica(const std::string& checkpoint, const Network& network);

}  // namespace halograd
