#include "support/json.hpp"
#include "train/evaluation.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>

#include "app/commands.hpp"
#include "io/checkpoint.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"

namespace halograd {
namespace {

struct EvaluateArguments {
  std::string checkpoint;
  std::vector<std::string> overrides;
  bool json = false;
};

void evaluate_checkpoint(const EvaluateArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  CheckpointHeader header;
  RunConfig config;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Loader> loader;
  std::unique_ptr<Network> network;
  Replica replica;
  comm.together([&] {
    header = read_checkpoint_header(arguments.checkpoint);
    config = parse_config(header.config, arguments.checkpoint + ", attribute config", arguments.overrides);
  });
  comm.require_same(arguments.checkpoint + "\n" + to_toml(config), "checkpoint or run file");
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);
  comm.together([&] {
    data = open_dataset(config.data, Split::test, config.training.seed, node_warning(comm));
    LoaderOptions options;
    options.rank = comm.rank();
    options.ranks = comm.ranks();
    options.training = false;
    options.global_batch = std::max(config.training.batch, comm.ranks());
    options.prefetch = config.data.prefetch;
    loader = std::make_unique<Loader>(*data, config.data, options);
    network = build_model(config, *data, std::max(1, loader->largest_batch()));
    replica = mean_replica(arguments.checkpoint, *network);
  });
  const Evaluation all = over_ranks(evaluate(ExecutionSpace(), *network, replica, *loader), comm);
  if (comm.rank() != 0) return;
  if (arguments.json) {
    Json object;
    object["checkpoint"] = arguments.checkpoint;
    object["network"] = header.network;
    object["step"] = static_cast<long>(header.step);
    object["epoch"] = static_cast<long>(header.epoch);
    object["images"] = static_cast<long>(all.images);
    object["mean_model_loss"] = all.loss();
    object[std::string("mean_model_") + all.metric.name] = all.score();
    std::cout << json_text(object) << std::endl;
  } else {
    std::printf("%s, %s after %ld epochs (%ld steps) on %d ranks\n", arguments.checkpoint.c_str(),
                header.network.c_str(), static_cast<long>(header.epoch), static_cast<long>(header.step), header.ranks);
    const std::string word = *all.metric.word;
    const bool per_cent = all.metric.per_cent;
    std::printf("mean model: %s%.*f%s of %.0f test images, loss %.4f\n", word.empty() ? "" : (word + " ").c_str(),
                per_cent ? 2 : 4, per_cent ? 100 * all.score() : all.score(), per_cent ? " %" : "", all.images,
                all.loss());
  }
}

}  // namespace

void add_evaluate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate", "Evaluate a checkpoint's mean model on the test set");
  command->add_option("checkpoint", arguments->checkpoint, "Checkpoint file")->required();
  command
      ->add_option("--set", arguments->overrides, "Set a key of the checkpoint's run file, for example data.path=/data")
      ->type_name("KEY=VALUE");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &session] { evaluate_checkpoint(*arguments, session); });
}

}  // namespace halograd
