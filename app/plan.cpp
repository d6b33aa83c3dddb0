#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/plan_output.hpp"
#include "app/session.hpp"
#include "averagers/codec_table.hpp"
#include "kernels/codec.hpp"
#include "kernels/error.hpp"
#include "kernels/peak.hpp"
#include "run/checkpoint_interval.hpp"
#include "run/cluster_config.hpp"
#include "run/read.hpp"
#include "run/recommendation.hpp"
#include "support/text.hpp"
#include "train/benchmark.hpp"
#include "train/noise_scale.hpp"

namespace halograd {
namespace {

// Without data the batch over all ranks is at most this many times the network's usual one. Shallue et al. (JMLR 2019)
// found that steps stop being twice as useful with twice the batch between 2^9 and 2^13 images for networks like those
// built in, whose usual batches are at most 128.
constexpr int usual_batches = 16;

struct PlanArguments {
  std::string network;
  std::string file;
  std::vector<std::string> overrides;
  std::string cluster_file;
  std::optional<int> nodes, ranks_per_node, most_batch;
  std::optional<double> latency_us, bandwidth_gb, transport_ns, memory_gb, spread, slowest, mttf_hours,
      checkpoint_seconds;
  double storage_gb = 1, restart_seconds = 60;
  std::vector<int> batches{8, 16, 32, 64, 128, 256};
  int warm_up_steps = 100;
  double seconds = 1;
  int threads = 0;
  bool all = false;
  bool json = false;
};

ClusterConfig described(const PlanArguments& arguments) {
  ClusterConfig cluster;
  if (!arguments.cluster_file.empty()) cluster = read_cluster(arguments.cluster_file);
  cluster.nodes = arguments.nodes.value_or(cluster.nodes);
  cluster.ranks_per_node = arguments.ranks_per_node.value_or(cluster.ranks_per_node);
  cluster.latency_us = arguments.latency_us.value_or(cluster.latency_us);
  cluster.bandwidth_gb = arguments.bandwidth_gb.value_or(cluster.bandwidth_gb);
  cluster.transport_ns = arguments.transport_ns.value_or(cluster.transport_ns);
  cluster.memory_gb = arguments.memory_gb.value_or(cluster.memory_gb);
  cluster.spread = arguments.spread.value_or(cluster.spread);
  cluster.slowest = arguments.slowest.value_or(cluster.slowest);
  const double ranks = static_cast<double>(cluster.nodes) * cluster.ranks_per_node;
  HALOGRAD_REQUIRE(ranks <= 65536, "plan: ", cluster.nodes, " nodes of ", cluster.ranks_per_node, " ranks are ", ranks,
                   " ranks; expected at most 65536");
  return cluster;
}

/// What is measured: a reference network, or a run file's network with its data.
BenchmarkCase case_of(const PlanArguments& arguments) {
  HALOGRAD_REQUIRE(arguments.network.empty() != arguments.file.empty(),
                   "plan: expected either --network, for example --network resnet18, or --config with a run file");
  return arguments.file.empty() ? reference_case(arguments.network)
                                : run_file_case(read_config(arguments.file, arguments.overrides));
}

/// Measures a replica's steps; for groups, those of one rank, and adds the time that its messages take.
void measure(const PlanArguments& arguments, const BenchmarkCase& benchmark, PlannedJob& job) {
  const int group = job.group_ranks, on_a_node = std::min(group, job.machine.ranks_per_node);
  if (!arguments.json) std::printf("\n%8s %10s %10s %12s\n", "batch", "step ms", "images/s", "memory");
  for (const int batch : arguments.batches) {
    BenchmarkCase each = benchmark;
    each.run.training.batch = batch;
    each.seconds = arguments.seconds;
    const BenchmarkResult result = run_benchmark(each);
    const double model_bytes = sizeof(float) * static_cast<double>(result.parameters);
    job.parameters = result.parameters;
    const double seconds = std::max(result.seconds, 1e-6 * benchmark.run.comm.inject.compute_us) +
                           group_seconds(job.machine, result.group, group);
    // Weights, gradients and the mean model, two buffers of an optimizer, and what lies between layers.
    job.batches.push_back({batch, seconds, on_a_node * ((3 + 2.0 / group) * model_bytes + result.arena_bytes)});
    job.batches.back().group = result.group;
    if (arguments.json) continue;
    std::printf("%8d %10.3f %10.0f %12s", batch, 1e3 * seconds, batch / seconds,
                human_bytes(job.batches.back().memory_bytes).c_str());
    if (group > 1)
      std::printf("  each rank sends %s in %g exchanges per step", human_bytes(result.group.bytes).c_str(),
                  result.group.exchanges);
    std::printf("\n");
    std::fflush(stdout);
  }
}

BatchBound bound_of(const PlanArguments& arguments, const BenchmarkCase& benchmark) {
  if (arguments.most_batch) return {*arguments.most_batch, "as asked for (--max-batch)"};
  if (arguments.file.empty()) {
    return {
        usual_batches * benchmark.run.training.batch,
        format("%d times the usual batch of the network; --config measures the gradient noise scale", usual_batches)};
  }
  const NoiseScale scale = measure_noise_scale(benchmark.run, arguments.warm_up_steps);
  const std::string range = significant(scale.least) + " to " + significant(scale.most);
  const bool found = std::isfinite(scale.images);
  const int images = static_cast<int>(std::clamp(found ? scale.images : scale.least, 1.0, 1e9));
  return {images, "the gradient noise scale (" + range + (found ? "" : ", the lower end is taken") +
                      " images, two standard errors), at which a step is half as useful per image"};
}

/// Nothing unless the mean time to failure is given.
std::optional<CheckpointPlan> checkpoints_of(const PlanArguments& arguments, const PlannedJob& job,
                                             const Candidate& pick) {
  if (!arguments.mttf_hours) return {};
  CheckpointPlan plan;
  plan.mttf = 3600 * *arguments.mttf_hours;
  // Weights and the two buffers that an optimizer has at most, of all replicas.
  plan.bytes = 3 * sizeof(float) * static_cast<double>(job.parameters) * job.replicas();
  plan.cost = arguments.checkpoint_seconds.value_or(plan.bytes / (1e9 * arguments.storage_gb));
  plan.young = young_interval(plan.cost, plan.mttf);
  plan.daly = daly_interval(plan.cost, plan.mttf);
  plan.steps = std::max(1L, std::lround(plan.daly / pick.step.step_seconds));
  plan.lost = lost_share(static_cast<double>(plan.steps) * pick.step.step_seconds, plan.cost, arguments.restart_seconds,
                         plan.mttf);
  return plan;
}

void describe(const RunConfig& run, const ClusterConfig& cluster) {
  std::printf("%s on %s of %s, latency %g us, %g GB/s per node", run.network.name.c_str(),
              counted(cluster.nodes, "node").c_str(), counted(cluster.ranks_per_node, "rank").c_str(),
              cluster.latency_us, cluster.bandwidth_gb);
  if (cluster.transport_ns > 0) std::printf(", %g ns of computing per byte", cluster.transport_ns);
  std::printf("\n");
  if (const ParallelConfig& parallel = run.parallel; parallel.group_ranks() > 1) {
    std::printf(
        "groups of %d ranks share a replica; one of them is measured, and what they send to each other is added\n",
        parallel.group_ranks());
  }
  if (cluster.spread > 0 || cluster.slowest > 1) {
    std::printf("computing of a step: spread %g %% from step to step, the slowest rank takes %g times as long\n",
                100 * cluster.spread, cluster.slowest);
  }
}

void plan(const PlanArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  ClusterConfig cluster;
  BenchmarkCase benchmark;
  comm.together([&] {
    HALOGRAD_REQUIRE(comm.ranks() == 1, "plan measures one rank, but ", comm.ranks(),
                     " were started; the cluster is described by --nodes and --ranks-per-node");
    cluster = described(arguments);
    benchmark = case_of(arguments);
    const int ranks = cluster.ranks_per_node, group = benchmark.run.parallel.group_ranks();
    HALOGRAD_REQUIRE(cluster.nodes * ranks % group == 0 && (ranks % group == 0 || group % ranks == 0),
                     "plan: ", counted(cluster.nodes, "node"), " of ", counted(ranks, "rank"), " for groups of ", group,
                     " ranks; expected whole groups, and whole nodes in a group or whole groups on a node");
  });
  session.start_kokkos(arguments.threads);
  if (!arguments.json) describe(benchmark.run, cluster);
  const BatchBound bound = bound_of(arguments, benchmark);
  PlannedJob job;
  job.ranks = cluster.nodes * cluster.ranks_per_node;
  job.group_ranks = benchmark.run.parallel.group_ranks();
  job.node_memory = 1e9 * cluster.memory_gb;
  job.uneven = {cluster.spread, cluster.slowest};
  job.most_batch = bound.images;
  job.machine = {1e-6 * cluster.latency_us, 1e9 * cluster.bandwidth_gb, 0, cluster.ranks_per_node,
                 1e-9 * cluster.transport_ns};
  measure(arguments, benchmark, job);
  job.machine.memory_bandwidth = measure_memory_bandwidth(ExecutionSpace());
  const std::vector<Candidate> all = candidates(job, [](const AveragerConfig& averager) {
    return measure_codec_speed(ExecutionSpace(), codec_row_of(averager).codec(averager));
  });
  const Candidate& pick = recommended(all, job.uneven);
  const PlanOutput output{job, bound, all, pick, checkpoints_of(arguments, job, pick)};
  if (arguments.json) {
    output.print_json();
  } else {
    output.print(arguments.all);
  }
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Recommend batch, averager, topology and period for a job on a cluster");
  CLI::Option* network =
      command->add_option("--network", arguments->network, "Reference network, which is measured here on one rank");
  CLI::Option* file = command->add_option("--config", arguments->file,
                                          "Run file whose network is measured instead, and with its data the gradient "
                                          "noise scale, which bounds the batch");
  file->excludes(network);
  command->add_option("--set", arguments->overrides, "Set a key of the run file")->type_name("KEY=VALUE")->needs(file);
  command->add_option("--cluster", arguments->cluster_file,
                      "TOML file with nodes, ranks_per_node, latency_us, bandwidth_gb, transport_ns, memory_gb, spread "
                      "and slowest");
  command->add_option("--nodes", arguments->nodes, "Nodes of the job (default: 1)")->check(CLI::PositiveNumber);
  command->add_option("--ranks-per-node", arguments->ranks_per_node, "Ranks per node (default: 1)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--latency-us", arguments->latency_us, "Network latency between nodes in microseconds (default: 2)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--bandwidth-gb", arguments->bandwidth_gb,
                   "Bandwidth of a node's network per direction in GB/s (default: 12.5)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--transport-ns", arguments->transport_ns,
                   "Nanoseconds of a rank's computing that moving a byte to another node, and one from there, takes: "
                   "measured by halograd simulate; nothing where the network does it by itself (default: 0)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--memory-gb", arguments->memory_gb, "Memory of a node in GB (default: not checked)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--spread", arguments->spread,
                   "Standard deviation of a rank's computing from step to step, relative to its mean (default: 0)")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--slowest", arguments->slowest,
                   "Factor by which the computing of the slowest rank takes longer in every step (default: 1)")
      ->check(CLI::Range(1.0, 1e6));
  command->add_option("--batch", arguments->batches, "Batch sizes per rank to measure, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--max-batch", arguments->most_batch,
                   "Largest batch over all ranks (default: the gradient noise scale with --config, else 16 times the "
                   "network's usual batch)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--warm-up-steps", arguments->warm_up_steps,
                   "Training steps before the gradient noise scale is measured")
      ->check(CLI::NonNegativeNumber)
      ->needs(file)
      ->capture_default_str();
  command
      ->add_option("--seconds", arguments->seconds,
                   "Seconds of steps to measure per batch size; at least five steps are measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "Number of threads (default: as in training)")
      ->check(CLI::PositiveNumber);
  CLI::Option* mttf =
      command
          ->add_option("--mttf-hours", arguments->mttf_hours,
                       "Mean time in hours between failures of the job (a node's, over the nodes): plans checkpoints")
          ->check(CLI::PositiveNumber);
  command
      ->add_option("--checkpoint-seconds", arguments->checkpoint_seconds,
                   "Seconds that a checkpoint takes (default: its size over --storage-gb)")
      ->check(CLI::PositiveNumber)
      ->needs(mttf);
  command
      ->add_option("--storage-gb", arguments->storage_gb, "GB/s at which all ranks together write to the file system")
      ->check(CLI::PositiveNumber)
      ->needs(mttf)
      ->capture_default_str();
  command
      ->add_option("--restart-seconds", arguments->restart_seconds, "Seconds from a failure to the first step after it")
      ->check(CLI::NonNegativeNumber)
      ->needs(mttf)
      ->capture_default_str();
  command->add_flag("--all", arguments->all, "Show all candidates of all batches, and why some are not recommended");
  command->add_flag("--json", arguments->json, "Print one JSON object with all candidates");
  command->callback([arguments, &session] { plan(*arguments, session); });
}

}  // namespace halograd
