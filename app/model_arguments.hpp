#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "data/dataset.hpp"
#include "io/checkpoint.hpp"
#include "io/model_origin.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// What a subcommand is given that applies a checkpoint's model to data and writes a file.
struct ModelArguments {
  std::string checkpoint, data, output, split = "test", replica = "mean";
  std::vector<std::string> overrides;
  bool overwrite = false;
  bool json = false;

  /// `what_data`: what may be named as data.
  void add_to(CLI::App& command, const char* what_data);
  [[nodiscard]] Split chosen_split() const;
  /// The rank whose replica is used; below 0: the mean of all.
  [[nodiscard]] int rank_of_replica() const;
};

/// A checkpoint and its run file.
struct SavedModel {
  CheckpointHeader header;
  RunConfig config;
  [[nodiscard]] ModelOrigin origin(const ModelArguments& arguments) const;
};

/// Collective. Throws CollectiveError where the output exists and is not to be replaced, and where ranks were given
/// different things.
SavedModel read_model(const ModelArguments& arguments, const Communicator& comm);

}  // namespace halograd
