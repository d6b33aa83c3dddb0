#include "train/trainer.hpp"

#include <optional>
#include <utility>

#include "averagers/averager.hpp"
#include "graph/graphs.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"
#include "mpi/node_group.hpp"
#include "nn/precisions.hpp"
#include "run/training_choices.hpp"
#include "run/write.hpp"
#include "support/memory.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"
#include "train/run_files.hpp"
#include "train/start_facts.hpp"
#include "train/tracing.hpp"
#include "train/training.hpp"
#include "window/shared_segment.hpp"

namespace halograd {

namespace {

void open_data(TrainingSetup& setup) {
  const RunConfig& config = setup.config;
  const Communicator& comm = setup.comm;
  const Warn warn = node_warning(comm);
  setup.train_set = setup.group.open_dataset(config, Split::train, warn);
  setup.test_set = setup.group.open_dataset(config, Split::test, warn);
  const Dataset &train_set = *setup.train_set, &test_set = *setup.test_set;
  HALOGRAD_REQUIRE(train_set.whole_shape() == test_set.whole_shape() && test_set.classes() <= train_set.classes(),
                   "data at ", config.data.path, ": the training images have shape ",
                   to_string(train_set.whole_shape()), " and ", train_set.classes(), " classes, the test images ",
                   to_string(test_set.whole_shape()), " and ", test_set.classes(),
                   "; expected the same shape and no additional classes");
  LoaderOptions options;
  options.global_batch = config.training.batch;
  options.rank = comm.rank();
  options.ranks = comm.ranks();
  options.seed = config.training.seed;
  options.prefetch = config.data.prefetch;
  options.lots = trains_freely(config, comm);
  if (shares_by_speed(config.training)) {
    options.most = 2L * ((options.global_batch + options.ranks - 1) / options.ranks);
  }
  setup.loader = std::make_unique<Loader>(train_set, config.data, options);
  const int largest = setup.loader->largest_batch();
  options.training = false;
  options.lots = false;
  options.most = 0;
  options.global_batch = largest * comm.ranks();
  setup.shared_test = std::make_unique<Loader>(test_set, config.data, options);
  options.global_batch = largest;
  options.rank = 0;
  options.ranks = 1;
  setup.whole_test = std::make_unique<Loader>(test_set, config.data, options);
}

void make_model(TrainingSetup& setup) {
  RunConfig& config = setup.config;
  setup.network = build_model(config, *setup.train_set, setup.loader->largest_batch(),
                              precision_named(config.training.precision), setup.group.make_space(setup.comm_config()));
  Network& network = *setup.network;
  HALOGRAD_REQUIRE(!config.flood_filling.on() || (config.data.pad_crop == 0 && !config.data.flip),
                   "flood_filling: data.pad_crop and data.flip would move the object from the middle of an image; "
                   "expected neither");
  setup.views = make_view_batches(config.flood_filling, setup.train_set->shape(), network.largest_batch());
  config.network = network.config();
  const bool several = setup.comm.ranks() > 1, called_during = several && row_of(config.averager).beside_gradient;
  network.replay_steps(records_steps(config.training) && !called_during);
  const auto parameters = static_cast<double>(network.parameter_count());
  const std::size_t own = setup.group.shard_of(network.parameter_count()).length;
  const auto states = static_cast<double>(make_optimizer(config.optimizer, 0)->state().size() * own);
  require_kernel_memory(
      sizeof(float) * (states + parameters * (2 + (several ? 1 : 0) + (setup.views ? 1 : 0))),
      "parameters, gradients and mean model of " + config.network.name + " and the state of " + config.optimizer.name);
  setup.optimizer = make_optimizer(config.optimizer, own);
  setup.replica = network.make_replica(config.training.seed);
  setup.mean = several ? Replica{Buffer<float>("halograd::mean_parameters", network.parameter_count()),
                                 {},
                                 Buffer<float>("halograd::mean_statistics", network.statistic_count())}
                       : setup.replica;
}

/// What moves pixels between ranks, or has the ranks of a group do different things.
void require_room_for_groups(const TrainingSetup& setup) {
  if (setup.group.ranks() == 1) return;
  const RunConfig& config = setup.config;
  HALOGRAD_REQUIRE(!setup.group.cuts_images() || (config.data.pad_crop == 0 && !config.data.flip),
                   "parallel.spatial: data.pad_crop and data.flip would move pixels from one rank of a group to "
                   "another; expected neither");
  HALOGRAD_REQUIRE(!shares_by_speed(config.training),
                   "[parallel]: the ranks of a group cannot have different shares of a batch; expected "
                   "training.shares = \"equal\"");
}

}  // namespace

bool trains_freely(const RunConfig& config, const Communicator& comm) {
  return comm.ranks() > 1 && row_of(config.averager).pace(config.averager) == Pace::free;
}

TrainingSetup::TrainingSetup(const RunConfig& run_file, const Communicator& communicator)
    : config(run_file), world(communicator), group(config, world), comm(group.replicas()) {
  world.require_same(to_toml(config), "run file");
  const AveragerRow& row = row_of(config.averager);
  const bool of_nodes = row.of_nodes, shares = group.ranks() > 1;
  const int nodes = of_nodes ? node_group(comm, config.comm.ranks_per_node).nodes : 0;
  world.together([&] {
    require_room_for_groups(*this);
    const int slow_rank = config.comm.inject.slow_rank;
    HALOGRAD_REQUIRE(slow_rank < comm.ranks(), "comm.inject.slow_rank is ", slow_rank, ", expected a rank below ",
                     comm.ranks());
    open_data(*this);
  });
  if (trains_freely(config, comm)) {  // found now, and not when the run folder has changed
    const SharedSegment what_a_deck_needs(world, sizeof(std::int64_t), RmaReach::other_nodes);
  }
  transport = {config.comm.transport, "", config.comm.piece_kb};
  const auto choose = [&] { world.together([&] { transport = choose_transport(config.comm, transport.trial); }); };
  if (shares) {  // edges of activations travel whatever the averager does
    transport.trial = try_network(world);
    choose();
  }
  world.together([&] {  // by then no rank of a group has failed alone
    make_model(*this);
    topology = std::make_unique<Topology>(of_nodes ? make_topology(config.topology, nodes)
                                                   : make_topology(config.topology, comm.ranks(), comm.node_of_rank()));
    HALOGRAD_REQUIRE(row.graphs != Graphs::fixed_undirected || is_undirected(topology->graph()), "averager.name = \"",
                     config.averager.name, "\" needs edges both ways, but topology.file = \"", config.topology.file,
                     "\" has one in a single direction");
  });
  // A rank's share of a batch, and so the size and number of its test batches, may differ from its neighbour's.
  whole_batches = comm.largest(whole_test->steps());
  shared_batches = comm.largest(shared_test->steps());
  if (may_use_device_windows(config.averager, topology->dynamic() != nullptr)) {
    halos = choose_halo_place(config.comm, *topology, comm, group.shard_of(network->parameter_count()).length);
  }
  if (shares || row.exchanges == Exchange::nothing) return;
  transport.trial = try_network(comm);
  if (row.graphs != Graphs::none && halos.memory == HaloMemory::host) choose();  // else no halos that it is about
}

CommConfig TrainingSetup::comm_config() const {
  CommConfig found = config.comm;
  found.transport = transport.transport;
  found.piece_kb = transport.piece_kb;
  return found;
}

StartFacts Trainer::facts() const {
  return start_facts(setup_);
}

TrainingResult Trainer::run(const TrainOptions& options) {
  std::optional<Tracing> tracing;
  if (options.trace) tracing.emplace(setup_.world);
  const auto make = trains_freely(setup_.config, setup_.comm) ? make_free_training : make_lockstep_training;
  TrainingResult result = make(setup_, report_, options)->run();
  if (tracing) {
    const std::string path = run_folder(setup_.config).trace();
    tracing->write(path);
    report_.line("Trace of all ranks: " + path);
  }
  return result;
}

}  // namespace halograd
