#include "train/start_facts.hpp"

#include <algorithm>

#include "averagers/averager.hpp"
#include "averagers/codec_table.hpp"
#include "graph/spectral_gap.hpp"
#include "graph/topology_table.hpp"
#include "kernels/compat.hpp"
#include "mpi/placement.hpp"
#include "support/seconds.hpp"
#include "support/text.hpp"
#include "train/host_batch.hpp"
#include "window/injector.hpp"
#include "window/transport_options.hpp"

namespace halograd {
namespace {

/// Which ranks run where: a misplaced rank is the first thing to look for when a job is slow.
void add_places(StartFacts& facts, const Communicator& comm) {
  constexpr std::size_t shown_nodes = 16;
  const auto nodes = places_by_node(gather_places(comm, device_number(ExecutionSpace())));
  for (std::size_t i = 0; i < std::min(nodes.size(), shown_nodes); ++i)
    facts.emplace_back(nodes[i].node, nodes[i].text);
  if (nodes.size() > shown_nodes) facts.emplace_back("...", counted(nodes.size() - shown_nodes, "node") + " more");
}

/// "ring, 8 edges, 2 between nodes, spectral gap 0.667"; `of_nodes`: its vertices are nodes.
std::string describe(const Topology& topology, const Communicator& comm, bool of_nodes) {
  if (const DynamicTopology* dynamic = topology.dynamic()) {
    double edges = 0;
    for (int rank = 0; rank < topology.ranks(); ++rank) edges += dynamic->mean_out(rank);
    return topology.kind() + ", " + counted(edges, "edge") + " per step";
  }
  std::size_t edges = 0;
  for (int rank = 0; rank < topology.ranks(); ++rank) edges += topology.in_neighbours(rank).size();
  const auto crossing =
      static_cast<double>(of_nodes ? static_cast<long>(edges) : crossing_edges(topology, comm.node_of_rank()));
  return topology.kind() + (of_nodes ? " of " + counted(topology.ranks(), "node") : "") + ", " +
         counted(static_cast<double>(edges), "edge") +
         (comm.nodes() > 1 ? ", " + significant(crossing) + " between nodes" : "") + ", spectral gap " +
         significant(comm.rank() == 0 ? spectral_gap(topology) : 0);
}

/// "112 MB/s by MPI_Put, 113 MB/s by messages, latency 45 us, from the slowest of 4 nodes (rank 3) to its neighbours"
std::string describe(const NetworkTrial& trial, const NodeSpeed& slowest) {
  const NetworkSpeed& speed = slowest.speed;
  return (trial.put_fault.empty() ? significant(1e-6 * speed.bandwidth) + " MB/s by MPI_Put, " : "") +
         significant(1e-6 * speed.send_bandwidth) + " MB/s by messages, latency " + significant(1e6 * speed.latency) +
         " us, from the slowest of " + counted(static_cast<double>(trial.nodes.size()), "node") + " (rank " +
         std::to_string(slowest.rank) + ") to its neighbours";
}

/// Collective. What leaves the node from which most does, of `bytes` that this rank sends: over edges to other nodes,
/// or once around a ring of all ranks.
double bytes_between_nodes(const TrainingSetup& setup, double bytes) {
  const Communicator& comm = setup.comm;
  const Topology& topology = *setup.topology;
  const AveragerRow& row = row_of(setup.config.averager);
  if (row.graphs == Graphs::none && comm.node_rank() > 0) bytes = 0;
  if (row.graphs != Graphs::none && !row.of_nodes && topology.dynamic() == nullptr) {
    const auto& to = topology.out_neighbours(comm.rank());
    const std::vector<int>& node = comm.node_of_rank();
    const auto crossing = std::count_if(to.begin(), to.end(), [&](const Neighbour& neighbour) {
      return node[static_cast<std::size_t>(neighbour.rank)] != node[static_cast<std::size_t>(comm.rank())];
    });
    bytes *= static_cast<double>(crossing) / static_cast<double>(std::max<std::size_t>(1, to.size()));
  }
  return comm.largest(comm.node().sum(bytes));
}

/// Collective. Seconds for which the slowest rank computes the gradient of its part of a batch, here of test images;
/// its replica stays as it is. 0: there are no test images.
double gradient_seconds(const TrainingSetup& setup) {
  constexpr double long_enough = 0.5;  // the first gradient takes longer than those after it, but this one will do
  double seconds = 0;
  setup.comm.together([&] {
    Network& network = *setup.network;
    const Replica& replica = setup.replica;
    const ExecutionSpace exec;
    const bool replays = network.replays_steps();
    network.replay_steps(false);
    const Buffer<float> statistics("halograd::statistics_before", replica.statistics.extent(0));
    Kokkos::deep_copy(exec, statistics, replica.statistics);
    setup.whole_test->start_epoch(0);
    const Batch* images = setup.whole_test->next();
    for (int pass = 0; pass < 2 && images != nullptr && seconds < long_enough; ++pass) {
      const double begin = seconds_now();
      network.train(exec, replica, host_batch(images), 0);
      Injector(setup.config.comm.inject).slow_down(setup.comm.rank(), seconds_now() - begin);
      seconds = (seconds_now() - begin) * setup.config.training.batch / (setup.comm.ranks() * images->size);
    }
    setup.whole_test->stop();
    Kokkos::deep_copy(exec, replica.statistics, statistics);
    exec.fence();
    network.replay_steps(replays);
  });
  return setup.comm.largest(seconds);
}

}  // namespace

StartFacts start_facts(const TrainingSetup& setup) {
  const RunConfig& config = setup.config;
  const Communicator& comm = setup.comm;
  const Network& network = *setup.network;
  const Topology& topology = *setup.topology;
  const Dataset &train_set = *setup.train_set, &test_set = *setup.test_set;
  const Loader& loader = *setup.loader;
  const HaloPlace& halos = setup.halos;
  StartFacts facts;
  const auto add = [&](const std::string& what, const std::string& value) { facts.emplace_back(what, value); };
  add("ranks", std::to_string(setup.world.ranks()) + " on " + counted(setup.world.nodes(), "node"));
  if (setup.group.ranks() > 1) {
    std::vector<std::string> divided;
    if (setup.group.cuts_images()) divided.push_back(listed(config.parallel.spatial, " x ") + " blocks of each image");
    if (config.parallel.channels > 1)
      divided.emplace_back("parts of the channels of dense layers and 1x1 convolutions");
    add("replicas", counted(comm.ranks(), "group") + " of " + std::to_string(setup.group.ranks()) +
                        " ranks, which have " + listed(divided, ", and "));
  }
  add("device",
      std::string(ExecutionSpace::name()) + ", " + counted(ExecutionSpace().concurrency(), "thread") + " per rank");

  add_places(facts, setup.world);

  add("data", (config.data.path.empty() ? config.data.format : config.data.path) + ": " +
                  std::to_string(train_set.size()) + " + " + std::to_string(test_set.size()) + " images of " +
                  to_string(train_set.whole_shape()) + ", " +
                  (train_set.target_values() > 0 ? counted(train_set.target_values(), "number") + " to predict"
                                                 : std::to_string(train_set.classes()) + " classes") +
                  (train_set.whole_labels_per_image() > 1 ? " per pixel" : ""));
  add("loss", config.loss.name + ", judged by " + metric_of(config.loss.name).name);
  const double model_bytes = 4.0 * static_cast<double>(network.parameter_count());
  add("network", config.network.name + ", " + std::to_string(network.parameter_count()) + " parameters (" +
                     human_bytes(model_bytes) + "), " + significant(network.forward_flops() * 1e-6) +
                     " MFLOP per image in the forward pass" + (setup.group.ranks() > 1 ? " of a rank's part" : ""));
  add("memory", human_bytes(static_cast<double>(network.arena_bytes())) + " of activations per rank, for " +
                    counted(network.largest_batch(), "image"));
  if (setup.views) {
    add("flood filling", "fields of view of " + to_string(network.input()) + ", mask first, at most " +
                             std::to_string(config.flood_filling.visits) + " of an image and step");
  }
  add("batch", std::to_string(config.training.batch) + " images, " + counted(config.training.epochs, "epoch") + " of " +
                   counted(static_cast<double>(loader.steps()), "step"));
  if (trains_freely(config, comm)) {
    add("pace", std::string("free: a ") + (setup.group.ranks() > 1 ? "group" : "rank") + " takes its next " +
                    counted(loader.largest_batch(), "image") +
                    " when it is done with the last, and waits for no other");
  }
  if (network.replays_steps()) add("step", "recorded once, then launched as a whole");
  if (config.output.local_steps > 0) {
    add("copies", "every " + counted(config.output.local_steps, "step") + " in " + config.output.local_folder +
                      " of the node" + (setup.world.nodes() > 1 ? ", and of another one" : ", of which there is one"));
  }
  add("optimizer", config.optimizer.name + ", learning rate " + significant(config.optimizer.learning_rate) + ", " +
                       config.schedule.name + " schedule");
  const AveragerConfig& averager = config.averager;
  const AveragerRow& row = row_of(averager);
  add("averager", title_of(averager) + (averager.overlap ? ", overlap by one step" : "") +
                      (is_coded(averager) ? ", codec " + averager.codec : "") +
                      (averager.every > 1 ? ", every " + std::to_string(averager.every) + " steps" : ""));
  if (row.graphs != Graphs::none) {
    add("topology", describe(topology, comm, row.of_nodes));
    const int slow_above = row_of(config.topology).slow_above;
    if (slow_above > 0 && topology.ranks() > slow_above) {
      add("note", "a " + topology.kind() + " of more than " + std::to_string(slow_above) +
                      " ranks mixes slowly; torus2d or exponential mix faster");
    }
  }
  const double bytes =
      bytes_per_step(config.averager, topology, comm.rank(), setup.group.shard_of(network.parameter_count()).length,
                     setup.optimizer->state().size(), comm.ranks() / topology.ranks());
  if (halos.memory == HaloMemory::device) add("halos", "directly from device memory to device memory");
  if (!halos.reason.empty()) add("halos", "through host memory: " + halos.reason);
  add("exchange", human_bytes(comm.largest(bytes)) + " sent per rank and step");
  const TransportChoice& transport = setup.transport;
  if (transport.trial.nodes.empty()) return facts;
  const Transport& way = row_of(transports, transport.transport, "comm.transport");
  const Carrier carrier = row.pace(averager) == Pace::free ? way.free_carrier : way.carrier;
  const bool sends = row.graphs == Graphs::none || carrier == Carrier::send;
  const auto rate = [&](const NodeSpeed& node) { return sends ? node.speed.send_bandwidth : node.speed.bandwidth; };
  const NodeSpeed& slowest =
      *std::min_element(transport.trial.nodes.begin(), transport.trial.nodes.end(),
                        [&](const NodeSpeed& one, const NodeSpeed& other) { return rate(one) < rate(other); });
  add("links", describe(transport.trial, slowest));
  if (!transport.reason.empty()) add("transport", "halos travel by messages: " + transport.reason);
  if (transport.piece_kb > setup.config.comm.piece_kb) {
    add("pieces", "what goes to another node does so in pieces of " + std::to_string(transport.piece_kb) +
                      " kB: a link is below " + std::to_string(slow_link_mb) + " MB/s");
  }
  if (setup.group.ranks() > 1) return facts;  // what the ranks of a group send each other is not counted
  const double leaving = bytes_between_nodes(setup, bytes), on_the_way = leaving / rate(slowest);
  // How many fields of view a step computes shows only then.
  const double computing = setup.views ? 0 : gradient_seconds(setup);
  const std::string share = computing > 0
                                ? ", " + significant(100 * on_the_way / computing) +
                                      " % of the time that a step computes for (" + significant(computing) + " s)"
                                : "";
  add("between nodes", human_bytes(leaving) + " leave a node per step, which takes " + significant(on_the_way) +
                           " s at that rate" + share);
  return facts;
}

}  // namespace halograd
