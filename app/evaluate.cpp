#include "support/json.hpp"
#include "train/evaluation.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "app/commands.hpp"
#include "io/checkpoint.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"
#include "train/replica_group.hpp"

namespace halograd {
namespace {

struct EvaluateArguments {
  std::string checkpoint, data;
  std::vector<std::string> overrides;
  bool report = false;
  bool json = false;
};

/// The checkpoint's network for a set that may be another than its run's: with fewer classes, but images of the same
/// shape.
std::unique_ptr<Network> network_for(const Dataset& data, const EvaluateArguments& arguments, const RunConfig& config,
                                     const CheckpointHeader& header, int largest_batch, std::unique_ptr<Space> space) {
  if (arguments.data.empty()) return build_model(config, data, largest_batch, Precision::full, std::move(space));
  const Shape input = input_of(config, data.whole_shape());
  HALOGRAD_REQUIRE(header.input.empty() || header.input == to_string(input), arguments.data, ": has images of ",
                   to_string(data.whole_shape()), ", expected ", header.input, ", the input of the network in ",
                   arguments.checkpoint);
  Target target = target_of(config, data);
  const int outputs = read_checkpoint_outputs(arguments.checkpoint), classes = outputs == 1 ? 2 : outputs;
  if (loss_named(config.loss.name).predictions->of_classes) {
    HALOGRAD_REQUIRE(data.classes() <= classes, arguments.data, ": has labels of ", data.classes(),
                     " classes, expected at most ", classes, ", those of the network in ", arguments.checkpoint);
    target.classes = classes;
  }
  return build_model(config, input, target, largest_batch, Precision::full, std::move(space));
}

/// Rows are the labels' classes, columns what they were taken for.
void print_report(const Confusion& confusion) {
  const int classes = confusion.classes();
  constexpr int most_columns = 32;
  const bool matrix = classes <= most_columns;
  std::printf("\n%7s %9s %9s", "class", "labels", "correct");
  for (int column = 0; matrix && column < classes; ++column) std::printf(" %7d", column);
  std::printf("\n");
  for (int row = 0; row < classes; ++row) {
    std::printf("%7d %9ld %7.2f %%", row, confusion.labels(row), 100 * confusion.accuracy(row));
    for (int column = 0; matrix && column < classes; ++column) std::printf(" %7ld", confusion.count(row, column));
    std::printf("\n");
  }
  if (!matrix) std::printf("The confusion matrix of %d classes is printed by --json alone\n", classes);
}

void add_report(const Confusion& confusion, Json& object) {
  std::vector<std::vector<long>> counts;
  std::vector<double> accuracy;
  for (int row = 0; row < confusion.classes(); ++row) {
    std::vector<long>& line = counts.emplace_back();
    for (int column = 0; column < confusion.classes(); ++column) line.push_back(confusion.count(row, column));
    accuracy.push_back(confusion.accuracy(row));
  }
  object["class_accuracy"] = accuracy;
  object["confusion"] = counts;
}

void evaluate_checkpoint(const EvaluateArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  CheckpointHeader header;
  RunConfig config;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Loader> loader;
  std::unique_ptr<Network> network;
  Replica replica;
  std::unique_ptr<ViewBatches> views;
  std::optional<Confusion> confusion;
  // Each rank has all of the network, unless asked otherwise.
  std::vector<std::string> overrides{"parallel.spatial=1", "parallel.channels=1"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  comm.together([&] {
    header = read_checkpoint_header(arguments.checkpoint);
    config = parse_config(header.config, arguments.checkpoint + ", attribute config", overrides);
    if (!arguments.data.empty()) config.data = data_at(arguments.data, config.data);
    HALOGRAD_REQUIRE(!arguments.report || loss_named(config.loss.name).predictions->of_classes, arguments.checkpoint,
                     ": --report needs a network that says classes, but its loss.name is \"", config.loss.name, "\"");
  });
  comm.require_same(arguments.checkpoint + "\n" + to_toml(config), "checkpoint or run file");
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);
  const ReplicaGroup group(config, comm);
  const Communicator& replicas = group.replicas();
  comm.together([&] {
    data = group.open_dataset(config, Split::test, node_warning(comm));
    loader = std::make_unique<Loader>(*data, config.data, evaluation_options(config, replicas));
  });
  comm.together([&] {  // by then no rank of a group has failed alone
    network = network_for(*data, arguments, config, header, std::max(1, loader->largest_batch()),
                          group.make_space(config.comm));
    replica = mean_replica(arguments.checkpoint, *network);
    views = make_view_batches(config.flood_filling, data->shape(), network->largest_batch());
    if (arguments.report) confusion.emplace(network->target().classes);
  });
  Confusion* const report = confusion ? &*confusion : nullptr;
  const Evaluation all =
      over_ranks(evaluate(ExecutionSpace(), *network, replica, *loader, views.get(), 0, {}, report), replicas);
  if (report != nullptr) report->sum(network->outputs_divided() ? comm : replicas);
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
    if (report != nullptr) add_report(*report, object);
    std::cout << json_text(object) << std::endl;
  } else {
    std::printf("%s, %s after %ld epochs (%ld steps) on %d ranks\n", arguments.checkpoint.c_str(),
                header.network.c_str(), static_cast<long>(header.epoch), static_cast<long>(header.step), header.ranks);
    const std::string word = *all.metric.word;
    const bool per_cent = all.metric.per_cent;
    std::printf("mean model: %s%.*f%s of %.0f test images, loss %.4f\n", word.empty() ? "" : (word + " ").c_str(),
                per_cent ? 2 : 4, per_cent ? 100 * all.score() : all.score(), per_cent ? " %" : "", all.images,
                all.loss());
    if (report != nullptr) print_report(*report);
  }
}

}  // namespace

void add_evaluate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate", "Evaluate a checkpoint's mean model on a test set");
  command->add_option("checkpoint", arguments->checkpoint, "Checkpoint file")->required();
  command
      ->add_option("--set", arguments->overrides, "Set a key of the checkpoint's run file, for example data.path=/data")
      ->type_name("KEY=VALUE");
  command->add_option("--data", arguments->data,
                      "Other data than the run's: an HDF5 file, or a folder of IDX or CIFAR files");
  command->add_flag("--report", arguments->report, "Print the confusion matrix and the accuracy of each class");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &session] { evaluate_checkpoint(*arguments, session); });
}

}  // namespace halograd
