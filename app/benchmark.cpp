#include "train/benchmark.hpp"

#include <iostream>
#include <memory>
#include <vector>

#include "app/benchmark_table.hpp"
#include "app/commands.hpp"
#include "app/shape_argument.hpp"
#include "kernels/cores.hpp"
#include "kernels/error.hpp"
#include "kernels/peak.hpp"
#include "nn/precisions.hpp"
#include "run/read.hpp"

namespace halograd {
namespace {

struct BenchmarkArguments {
  std::vector<std::string> networks;
  std::string file;
  std::vector<std::string> overrides;
  std::string input;
  std::string precision;
  int classes = 0;
  int batch = 0;
  int threads = 0;
  double seconds = 4;
  bool layers = false;
  bool json = false;
};

void apply(const BenchmarkArguments& arguments, BenchmarkCase& benchmark) {
  if (!arguments.input.empty()) benchmark.input = parse_shape(arguments.input, "--input");
  if (arguments.classes > 0) benchmark.classes = arguments.classes;
  if (arguments.batch > 0) benchmark.run.training.batch = arguments.batch;
  if (!arguments.precision.empty()) benchmark.run.training.precision = arguments.precision;
  benchmark.seconds = arguments.seconds;
  benchmark.layers = arguments.layers;
}

BenchmarkCase named_case(const BenchmarkArguments& arguments, const std::string& name) {
  BenchmarkCase result = reference_case(name);
  apply(arguments, result);
  if (result.labels_per_image > 1) result.labels_per_image = result.input.pixels();
  return result;
}

BenchmarkCase described_case(const BenchmarkArguments& arguments, const RunConfig& config) {
  BenchmarkCase result;
  result.run = config;
  if (arguments.input.empty() || arguments.classes == 0) result = run_file_case(config);
  apply(arguments, result);
  return result;
}

void warn_of_threads(int threads) {
  const int cores = usable_cores().count();
  if (cores == 0 || threads <= cores) return;
  std::cerr << "halograd: warning: " << threads << " threads on the " << cores
            << " cores that this process may use: the figures will not be meaningful\n";
}

void benchmark(const BenchmarkArguments& arguments, Session& session) {
  HALOGRAD_REQUIRE(!arguments.networks.empty() || !arguments.file.empty(),
                   "benchmark: --network or --config is needed, for example --network lenet5,vgg_small");
  const Communicator& comm = session.start_mpi();
  RunConfig config;
  std::vector<BenchmarkCase> cases;
  comm.together([&] {
    HALOGRAD_REQUIRE(comm.ranks() == 1, "benchmark measures one process, but ", comm.ranks(),
                     " were started; halograd train reports images/s over all ranks");
    for (const std::string& name : arguments.networks) cases.push_back(named_case(arguments, name));
    if (!arguments.file.empty()) {
      config = read_config(arguments.file, arguments.overrides);
      cases.push_back(described_case(arguments, config));
    }
  });
  session.start_kokkos(arguments.threads > 0 ? arguments.threads : config.training.threads);
  BenchmarkTable table;
  table.threads = ExecutionSpace().concurrency();
  warn_of_threads(table.threads);
  std::vector<BenchmarkResult> results;
  for (const BenchmarkCase& each : cases) {
    results.push_back(run_benchmark(each));
    // After the first steps, so that a machine that lowers its clock under load has done so; once.
    if (table.fma_peak == 0) {
      table.fma_peak = measure_fma_peak(ExecutionSpace());
      table.bf16_peak = measure_bf16_peak(ExecutionSpace());
    }
    if (table.bandwidth == 0) table.bandwidth = measure_memory_peak(ExecutionSpace());
    if (!arguments.json) table.print(results.back());
  }
  if (arguments.json) table.print_json(results);
}

}  // namespace

void add_benchmark(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<BenchmarkArguments>();
  CLI::App* command = app.add_subcommand(
      "benchmark", "Measure training images/s of networks: forward, loss, backward and update of one batch");
  command->add_option("--network", arguments->networks, "Reference networks, separated by commas")->delimiter(',');
  CLI::Option* file =
      command->add_option("--config", arguments->file, "Run file whose network, batch and optimizer are measured");
  command->add_option("--set", arguments->overrides, "Set a key of the run file")->type_name("KEY=VALUE")->needs(file);
  command->add_option("--batch", arguments->batch, "Images per step (default: the network's usual number)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--input", arguments->input,
                   "Shape of an image, for example 32x32x3 (default: the network's usual shape)")
      ->type_name(shape_form);
  command->add_option("--classes", arguments->classes, "Number of classes (default: the network's usual number)")
      ->check(CLI::Range(2, 1000000));
  command
      ->add_option("--precision", arguments->precision,
                   "Precision, as in training.precision (default: fp32, or the run file's)")
      ->check(CLI::IsMember(names_of(precisions())));
  command->add_option("--threads", arguments->threads, "Number of threads (default: as in training)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--seconds", arguments->seconds,
                   "Seconds of steps to measure per network; at least five steps are measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--layers", arguments->layers, "Also measure the time of each layer and pass, in a second run");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &session] { benchmark(*arguments, session); });
}

}  // namespace halograd
