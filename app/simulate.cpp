#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/session.hpp"
#include "app/simulation.hpp"
#include "averagers/averager_table.hpp"
#include "averagers/codec_table.hpp"
#include "kernels/codec.hpp"
#include "kernels/error.hpp"
#include "kernels/peak.hpp"
#include "kernels/sparse_product.hpp"
#include "run/read.hpp"
#include "support/text_file.hpp"
#include "train/benchmark.hpp"
#include "window/network_speed.hpp"

namespace halograd {
namespace {

struct SimulateArguments {
  SimulationOptions simulation;
  double latency_us = 0;  // 0: measured, or the default
  double bandwidth_gb = 0;
  std::optional<double> transport_ns;
  double memory_gb = 0;
  double compute_ms = 100;
  double parameters = 11173962;
  std::string network;
  std::vector<std::string> overrides;
  int batch = 0;
  int threads = 0;
  std::string csv;
};

/// One number of the model and where it comes from.
void print_fact(const char* label, double value, const char* unit, const char* source) {
  std::printf("%-18s %.4g %s, %s\n", label, value, unit, source);
}

/// Bytes of a model in MB.
double megabytes(std::size_t parameters) {
  return 1e-6 * sizeof(float) * static_cast<double>(parameters);
}

void describe_network(const SimulateArguments& arguments, SimulationOptions& simulation) {
  StepWork& work = simulation.work;
  if (arguments.network.empty()) {
    work.compute_seconds = 1e-3 * arguments.compute_ms;
    simulation.parameters = static_cast<std::size_t>(arguments.parameters);
    print_fact("compute per step", arguments.compute_ms, "ms",
               "given or assumed (--compute-ms, or --network to measure)");
    print_fact("model", megabytes(simulation.parameters), "MB", "given or assumed (--parameters, or --network)");
    return;
  }
  BenchmarkCase each = reference_case(arguments.network);
  if (arguments.batch > 0) each.run.training.batch = arguments.batch;
  each.seconds = 2;
  const BenchmarkResult result = run_benchmark(each);
  work.compute_seconds = result.seconds;
  simulation.parameters = result.parameters;
  std::printf("%-18s %s, batch %d\n", "network", arguments.network.c_str(), result.batch);
  print_fact("compute per step", 1e3 * work.compute_seconds, "ms", "measured here");
  print_fact("model", megabytes(result.parameters), "MB", "of the network");
}

void describe_machine(const SimulateArguments& arguments, const NetworkSpeed& measured, Machine& machine) {
  constexpr const char* measured_between = "measured between the first and the last rank";
  const auto choose = [&](double given, double found, double& value) {
    if (given > 0) value = given;
    if (given == 0 && found > 0) value = found;
    return given > 0 ? "given" : found > 0 ? measured_between : "assumed";
  };
  const char* latency = choose(1e-6 * arguments.latency_us, measured.latency, machine.latency);
  const char* bandwidth = choose(1e9 * arguments.bandwidth_gb, measured.bandwidth, machine.bandwidth);
  print_fact("latency", 1e6 * machine.latency, "us", latency);
  print_fact("bandwidth", 1e-9 * machine.bandwidth, "GB/s per node and direction", bandwidth);
  machine.transport = arguments.transport_ns ? 1e-9 * *arguments.transport_ns : measured.transport;
  print_fact("transport", 1e9 * machine.transport, "ns of computing per byte",
             arguments.transport_ns   ? "given"
             : measured.bandwidth > 0 ? measured_between
                                      : "assumed");
  const bool given = arguments.memory_gb > 0;
  machine.memory_bandwidth = given ? 1e9 * arguments.memory_gb : measure_memory_bandwidth(ExecutionSpace());
  print_fact("memory", 1e-9 * machine.memory_bandwidth, "GB/s per rank", given ? "given" : "measured here");
  std::printf("%-18s %d\n", "ranks per node", machine.ranks_per_node);
}

void write_csv(const std::string& path, const std::vector<SimulatedRow>& rows) {
  write_text(path, csv_of(rows));
  std::printf("Wrote %s\n", path.c_str());
}

/// The averager of the default run file with some of its keys set.
AveragerConfig averager_of(const SimulateArguments& arguments) {
  const std::string any_run = "network.name = \"lenet5\"\ndata.format = \"synthetic\"\n";
  return parse_config(any_run, "--set", arguments.overrides).averager;
}

void describe_averager(SimulationOptions& simulation) {
  const AveragerConfig& averager = simulation.averager;
  std::printf("%-18s %s, every %d\n", "averager", title_of(averager).c_str(), averager.every);
  if (!is_coded(averager)) return;
  simulation.coding = measure_codec_speed(ExecutionSpace(), codec_row_of(averager).codec(averager));
  print_fact("coding", 1e9 * simulation.coding.encode, "ns per value", "measured here");
  print_fact("decoding", 1e9 * simulation.coding.decode, "ns per value", "measured here");
}

void simulate(SimulateArguments arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  comm.together([&] {
    const int every = arguments.simulation.averager.every;  // --every
    arguments.simulation.averager = averager_of(arguments);
    if (every > 1) arguments.simulation.averager.every = every;
    require_possible(arguments.simulation);
  });
  session.start_kokkos(arguments.threads);
  const bool linked = comm.ranks() > 1 && (arguments.latency_us == 0 || arguments.bandwidth_gb == 0);
  const NetworkSpeed speed = linked ? measure_network_speed(comm) : NetworkSpeed{};
  comm.together([&] {  // one rank does the rest, the others wait for it without holding a core
    if (comm.rank() != 0) return;
    describe_network(arguments, arguments.simulation);
    describe_averager(arguments.simulation);
    describe_machine(arguments, speed, arguments.simulation.machine);
    std::printf("%-18s %s\n", "sparse products", sparse_product_maker());
    const std::vector<SimulatedRow> rows = simulate_all(arguments.simulation);
    if (!arguments.csv.empty()) write_csv(arguments.csv, rows);
  });
}

}  // namespace

void add_simulate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  SimulationOptions& simulation = arguments->simulation;
  CLI::App* command = app.add_subcommand(
      "simulate", "Predict mixing and step time on up to 65,536 ranks, by simulation and a latency-bandwidth model");
  command->add_option("--ranks", simulation.ranks, "Numbers of ranks, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(2, most_simulated_ranks))
      ->capture_default_str();
  command->add_option("--topology", simulation.topologies, "Topologies, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--degree", simulation.degree, "random_regular: neighbours per rank, an even number")
      ->capture_default_str();
  command->add_option("--ranks-per-node", simulation.machine.ranks_per_node, "Ranks that share a node's network")
      ->check(CLI::Range(1, most_simulated_ranks))
      ->capture_default_str();
  command->add_option("--every", simulation.averager.every, "Steps from one exchange to the next (H)")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--set", arguments->overrides,
                   "Set a key of [averager], for example averager.codec=int8 (default: the neighbour averager)")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--spread", simulation.work.uneven.spread,
                   "Standard deviation of a rank's computing from step to step, relative to its mean")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--slowest", simulation.work.uneven.slowest,
                   "Factor by which the computing of the slowest rank takes longer in every step")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command->add_option("--tolerance", simulation.tolerance, "Consensus: distance to the mean, relative to the start")
      ->check(CLI::Range(1e-12, 0.99))
      ->capture_default_str();
  command->add_option("--steps", simulation.most_exchanges, "Largest number of exchanges to simulate")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command
      ->add_option("--latency-us", arguments->latency_us,
                   "Network latency in microseconds (default: measured if there are two or more ranks)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--bandwidth-gb", arguments->bandwidth_gb,
                   "Bandwidth of a node's network in GB/s (default: as for the latency)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--transport-ns", arguments->transport_ns,
                   "Nanoseconds of a rank's computing that moving a byte to another node, and one from there, takes "
                   "(default: as for the latency)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--memory-gb", arguments->memory_gb, "Memory bandwidth per rank in GB/s (default: measured)")
      ->check(CLI::PositiveNumber);
  CLI::Option* network = command->add_option("--network", arguments->network, "Measure this reference network's step");
  command->add_option("--batch", arguments->batch, "Images per rank and step")
      ->check(CLI::PositiveNumber)
      ->needs(network);
  command->add_option("--threads", arguments->threads, "Number of threads (default: as in training)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--compute-ms", arguments->compute_ms, "Milliseconds of computation per step, instead of --network")
      ->check(CLI::PositiveNumber)
      ->excludes(network)
      ->capture_default_str();
  command->add_option("--parameters", arguments->parameters, "Number of parameters of the model (default: resnet18's)")
      ->check(CLI::PositiveNumber)
      ->excludes(network);
  command->add_option("--csv", arguments->csv,
                      "Also write the table to this file; jobscripts/plot_simulation.py draws it");
  command->callback([arguments, &session] { simulate(*arguments, session); });
}

}  // namespace halograd
