#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/session.hpp"
#include "graph/recommendation.hpp"
#include "kernels/error.hpp"
#include "kernels/peak.hpp"
#include "run/cluster_config.hpp"
#include "support/text.hpp"
#include "train/benchmark.hpp"

namespace halograd {
namespace {

constexpr int planned_slots = 2;  // comm.slots

struct PlanArguments {
  std::string network;
  std::string cluster_file;
  std::optional<int> nodes, ranks_per_node;
  std::optional<double> latency_us, bandwidth_gb, memory_gb;
  std::vector<int> batches{8, 16, 32, 64, 128, 256};
  double seconds = 1;
  int threads = 0;
};

ClusterConfig described(const PlanArguments& arguments) {
  ClusterConfig cluster;
  if (!arguments.cluster_file.empty()) cluster = read_cluster(arguments.cluster_file);
  cluster.nodes = arguments.nodes.value_or(cluster.nodes);
  cluster.ranks_per_node = arguments.ranks_per_node.value_or(cluster.ranks_per_node);
  cluster.latency_us = arguments.latency_us.value_or(cluster.latency_us);
  cluster.bandwidth_gb = arguments.bandwidth_gb.value_or(cluster.bandwidth_gb);
  cluster.memory_gb = arguments.memory_gb.value_or(cluster.memory_gb);
  const double ranks = static_cast<double>(cluster.nodes) * cluster.ranks_per_node;
  HALOGRAD_REQUIRE(ranks <= 65536, "plan: ", cluster.nodes, " nodes of ", cluster.ranks_per_node, " ranks are ", ranks,
                   " ranks; expected at most 65536");
  return cluster;
}

std::vector<MeasuredBatch> measure(const PlanArguments& arguments, double& model_bytes) {
  std::vector<MeasuredBatch> batches;
  std::printf("\n%8s %10s %10s %12s\n", "batch", "step ms", "images/s", "memory");
  for (const int batch : arguments.batches) {
    BenchmarkCase each = reference_case(arguments.network);
    each.run.training.batch = batch;
    each.seconds = arguments.seconds;
    const BenchmarkResult result = run_benchmark(each);
    model_bytes = sizeof(float) * static_cast<double>(result.parameters);
    // weights, gradients, two buffers of an optimizer, the mean; and what lies between layers
    batches.push_back({batch, result.seconds, 5 * model_bytes + result.arena_bytes});
    std::printf("%8d %10.3f %10.0f %12s\n", batch, 1e3 * result.seconds, batch / result.seconds,
                human_bytes(batches.back().memory_bytes).c_str());
    std::fflush(stdout);
  }
  return batches;
}

void print_candidates(const std::vector<Candidate>& all, int batch) {
  std::printf("\n%-15s %-12s %3s %8s %12s %10s %11s %12s %12s\n", "averager", "topology", "H", "gap/H", "MB sent/step",
              "step ms", "efficiency", "images/s", "memory/node");
  for (const Candidate& each : all) {
    if (each.batch != batch) continue;
    std::printf("%-15s %-12s %3d %8.3g %12.3g %10.3f %9.1f %% %12.0f %12s%s\n", each.averager.c_str(),
                each.topology.empty() ? "-" : each.topology.c_str(), each.every, each.mixing(), 1e-6 * each.step.bytes,
                1e3 * each.step.step_seconds, 100 * each.step.efficiency, each.images_per_second,
                human_bytes(each.node_memory).c_str(),
                !each.fits                     ? "  does not fit"
                : each.mixing() < least_mixing ? "  mixes too slowly"
                                               : "");
  }
}

void print_recommendation(const std::vector<Candidate>& all, const Candidate& best, int ranks) {
  double fastest = 0, allreduce = 0;
  for (const Candidate& each : all) {
    const bool sums = !each.on_topology();
    if (!sums && each.fits && each.mixing() >= least_mixing) fastest = std::max(fastest, each.images_per_second);
    if (sums && each.batch == best.batch) allreduce = std::max(allreduce, each.images_per_second);
  }
  std::printf("\nRecommended\n");
  std::printf(
      "  training.batch = %d  # %d images per rank: the smallest batch with %.0f %% of the largest throughput\n",
      best.batch * ranks, best.batch, 100 * best.images_per_second / fastest);
  const double gain = 100 * (best.images_per_second / allreduce - 1);
  if (gain < 1) {
    std::printf(
        "  averager.name = \"allreduce\"  # the model predicts %+.1f %% images/s with neighbours; repeatable, the same "
        "on all ranks\nIf ranks differ in speed, or nodes are far apart:\n",
        gain);
  }
  std::printf("  averager.name = \"neighbour\"  # the model predicts %+.1f %% images/s against the better all-reduce\n",
              gain);
  if (best.every > 1) {
    std::printf("  averager.every = %d  # an exchange in every step would cost more than 2 %%; this costs %.1f %%\n",
                best.every, 100 * (1 - best.step.efficiency));
  } else {
    std::printf("  averager.every = 1  # the exchange costs %.1f %% of the step\n", 100 * (1 - best.step.efficiency));
  }
  std::printf(
      "  topology.kind = \"%s\"  # mixes best of these: a step removes %.3g of the distance between replicas, a ring "
      "of 16 ranks %.2g\n",
      best.topology.c_str(), best.mixing(), least_mixing);
}

void plan(const PlanArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  ClusterConfig description;
  comm.together([&] {
    HALOGRAD_REQUIRE(comm.ranks() == 1, "plan measures one rank, but ", comm.ranks(),
                     " were started; the cluster is described by --nodes and --ranks-per-node");
    description = described(arguments);
    (void)reference_case(arguments.network);
  });
  session.start_kokkos(arguments.threads);
  const int ranks = description.nodes * description.ranks_per_node;
  std::printf("%s on %d nodes of %d ranks, latency %g us, %g GB/s per node\n", arguments.network.c_str(),
              description.nodes, description.ranks_per_node, description.latency_us, description.bandwidth_gb);
  double model_bytes = 0;
  const std::vector<MeasuredBatch> batches = measure(arguments, model_bytes);
  Cluster cluster;
  cluster.ranks = ranks;
  cluster.node_memory = 1e9 * description.memory_gb;
  cluster.machine = {1e-6 * description.latency_us, 1e9 * description.bandwidth_gb,
                     measure_memory_bandwidth(ExecutionSpace()), description.ranks_per_node};
  const std::vector<Candidate> all = candidates(cluster, model_bytes, batches, planned_slots);
  const Candidate best = recommended(all);
  print_candidates(all, best.batch);
  print_recommendation(all, best, ranks);
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Recommend batch, topology and steps between exchanges for a job on a cluster");
  command->add_option("--network", arguments->network, "Reference network, which is measured here on one rank")
      ->required();
  command->add_option("--cluster", arguments->cluster_file,
                      "TOML file with nodes, ranks_per_node, latency_us, bandwidth_gb and memory_gb");
  command->add_option("--nodes", arguments->nodes, "Nodes of the job")->check(CLI::PositiveNumber);
  command->add_option("--ranks-per-node", arguments->ranks_per_node, "Ranks per node")->check(CLI::PositiveNumber);
  command->add_option("--latency-us", arguments->latency_us, "Network latency between nodes in microseconds")
      ->check(CLI::PositiveNumber);
  command->add_option("--bandwidth-gb", arguments->bandwidth_gb, "Bandwidth of a node's network per direction in GB/s")
      ->check(CLI::PositiveNumber);
  command->add_option("--memory-gb", arguments->memory_gb, "Memory of a node in GB (default: not checked)")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", arguments->batches, "Batch sizes per rank to measure, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--seconds", arguments->seconds,
                   "Seconds of steps to measure per batch size; at least five steps are measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "Number of threads (default: as in training)")
      ->check(CLI::PositiveNumber);
  command->callback([arguments, &session] { plan(*arguments, session); });
}

}  // namespace halograd
