#include "app/model_arguments.hpp"

#include <cctype>
#include <filesystem>
#include <limits>

#include "app/session.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "support/table.hpp"

namespace halograd {
namespace {

/// What --split may be.
struct SplitChoice {
  const char* name;
  Fact<Split> split;
};
constexpr SplitChoice split_choices[] = {{"test", Split::test}, {"train", Split::train}};

}  // namespace

void ModelArguments::add_to(CLI::App& command, const char* what_data) {
  command.add_option("checkpoint", checkpoint, "Checkpoint file")->required();
  command.add_option("data", data, what_data)->required();
  command.add_option("--output", output, "File to write")->required()->type_name("FILE.h5");
  command.add_option("--replica", replica, "Replica to use: mean (default), or the number of a rank")
      ->check(CLI::IsMember({"mean"}) | CLI::Range(0, std::numeric_limits<int>::max()));
  command.add_option("--split", split, "Images of a set that has both (default: test)")
      ->check(CLI::IsMember(names_of(split_choices)));
  command.add_option("--set", overrides, "Set a key of the checkpoint's run file, for example training.batch=8")
      ->type_name("KEY=VALUE");
  command.add_flag("--overwrite", overwrite, "Replace the output if it exists");
  command.add_flag("--json", json, "Print one JSON object");
}

Split ModelArguments::chosen_split() const {
  return row_of(split_choices, split, "--split").split;
}

int ModelArguments::rank_of_replica() const {
  return std::isdigit(static_cast<unsigned char>(replica[0])) != 0 ? std::stoi(replica) : -1;
}

ModelOrigin SavedModel::origin(const ModelArguments& arguments) const {
  return {arguments.checkpoint, arguments.replica, header.network, header.step,
          header.epoch,         arguments.data,    versions()};
}

SavedModel read_model(const ModelArguments& arguments, const Communicator& comm) {
  SavedModel model;
  comm.together([&] {
    HALOGRAD_REQUIRE(arguments.overwrite || !std::filesystem::exists(arguments.output), arguments.output,
                     ": exists; --overwrite replaces it");
    model.header = read_checkpoint_header(arguments.checkpoint);
    model.config = parse_config(model.header.config, arguments.checkpoint + ", attribute config", arguments.overrides);
    model.config.data.cache_memory = 0;  // each image is read once
    model.config.data.cache_folder.clear();
  });
  comm.require_same(
      arguments.checkpoint + "\n" + arguments.data + "\n" + arguments.output + "\n" + to_toml(model.config),
      "checkpoint, data, output or run file");
  return model;
}

}  // namespace halograd
