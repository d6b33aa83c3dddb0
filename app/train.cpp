#include "support/json.hpp"
#include "support/text.hpp"
#include "train/trainer.hpp"

#include <iostream>
#include <memory>
#include <string>

#include "app/commands.hpp"
#include "app/exit_status.hpp"
#include "mpi/watchdog.hpp"
#include "run/read.hpp"
#include "support/job_notes.hpp"
#include "support/stop_signals.hpp"
#include "version.hpp"

namespace halograd {
namespace {

struct TrainArguments {
  std::string file;
  std::vector<std::string> overrides;
  TrainOptions options;
  std::string time_limit;
  bool check = false;
  bool json = false;
};

void print_json(const TrainingResult& result) {
  Json object;
  object["epochs"] = static_cast<long>(result.epochs);
  object["steps"] = static_cast<long>(result.steps);
  object["seconds"] = result.seconds;
  object["images_per_second"] = result.images_per_second;
  object["wait_share"] = result.wait_share;
  object["bytes_sent"] = result.bytes_sent;
  object["train_loss"] = result.last.train_loss;
  object["mean_model_loss"] = result.last.mean_model_loss;
  object["test_" + result.last.metric] = std::vector<double>{result.last.score_lowest, result.last.score_highest};
  object["mean_model_" + result.last.metric] = result.last.mean_model_score;
  object["consensus_distance"] = result.last.consensus_distance;
  object["skipped_updates"] = static_cast<long>(result.skipped);
  object["stopped"] = result.stopped;
  object["checkpoint"] = result.checkpoint;
  object["metrics"] = result.metrics;
  object["config"] = result.config;
  std::cout << json_text(object) << std::endl;
}

/// The switches as text: ranks that do not agree on them would wait for each other.
std::string switches(const TrainArguments& arguments) {
  const auto text = [](const char* name, bool given) { return given ? std::string(" ") + name : std::string(); };
  return "train" + text("--check", arguments.check) + text("--resume", arguments.options.resume) +
         text("--overwrite", arguments.options.overwrite) + text("--trace", arguments.options.trace) + " --init '" +
         arguments.options.init + "' --stop-after " + std::to_string(arguments.options.stop_after);
}

/// For a shell: goes on with this run as this call has begun or resumed it.
std::string resuming_command(const TrainArguments& arguments) {
  std::string command = "halograd train " + shell_word(arguments.file);
  for (const std::string& setting : arguments.overrides) command += " --set " + shell_word(setting);
  if (!arguments.time_limit.empty()) command += " --time-limit " + shell_word(arguments.time_limit);
  if (arguments.options.trace) command += " --trace";
  return command + " --resume";
}

void train(const TrainArguments& arguments, Session& session) {
  catch_stop_signals();  // before the start, which takes a while on many nodes
  const Communicator& comm = session.start_mpi();
  const bool speaks = comm.rank() == 0;
  if (speaks) note_for_job("running");
  RunConfig config;
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.time_limit.empty()) overrides.push_back("training.time_limit=" + arguments.time_limit);
  comm.together([&] { config = read_config(arguments.file, overrides); });
  comm.require_same(switches(arguments), "command line");
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);

  Report report(!speaks || arguments.json, config.output.print_steps, metric_of(config.loss.name).name);
  Watchdog watchdog(comm, requeue_status);
  if (!watchdog.reaches_all_nodes()) {
    report.line("NOTE: no TCP connection between some nodes: a rank that dies on another node will not be noticed");
  }
  Trainer trainer(config, comm, report);
  report.start(std::string("halograd ") + HALOGRAD_VERSION + ": " + config.name, trainer.facts());
  if (arguments.check) {
    report.line("Checked: data, network, topology and memory are in order; nothing was trained or written");
    if (speaks) note_for_job("finished");
    watchdog.end();
    return;
  }
  const TrainingResult result = trainer.run(arguments.options);
  if (result.stopped.empty()) {
    report.end(result);
    if (speaks) note_for_job("finished");
  } else {
    report.line("Exit status " + std::to_string(requeue_status) + "; this command continues the run:\n  " +
                resuming_command(arguments));
    session.end_with(requeue_status);
  }
  if (speaks && arguments.json) print_json(result);
  watchdog.end();
}

}  // namespace

void add_train(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train the network of a run file");
  command->add_option("file", arguments->file, "Run file (TOML)")->required();
  command->add_option("--set", arguments->overrides, "Set a key of the run file, for example training.epochs=2")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--time-limit", arguments->time_limit,
                   "Stop with a checkpoint after this many seconds; overrides training.time_limit")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--stop-after", arguments->options.stop_after,
                   "Stop with a checkpoint after this many epochs of this call")
      ->check(CLI::PositiveNumber);
  CLI::Option* resume = command->add_flag("--resume", arguments->options.resume,
                                          "Continue from the run folder's checkpoint, if there is one");
  command->add_flag("--overwrite", arguments->options.overwrite, "Replace an existing run in the run folder")
      ->excludes(resume);
  command->add_option("--init", arguments->options.init, "Start a new run with the mean weights of a checkpoint")
      ->type_name("CHECKPOINT");
  command->add_flag("--trace", arguments->options.trace,
                    "Write trace.json into the run folder: a timeline of every rank, for chrome://tracing");
  CLI::Option* check = command->add_flag("--check", arguments->check, "Validate everything, train nothing");
  command->add_flag("--json", arguments->json, "Print the result as one JSON object, and nothing else")
      ->excludes(check);
  command->callback([arguments, &session] {
    arguments->options.versions = versions();
    train(*arguments, session);
  });
}

}  // namespace halograd
