#pragma once

#include "config/config.hpp"
#include "data/loader.hpp"
#include "graph/topology.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "train/report.hpp"
#include "window/halo_memory.hpp"

namespace halograd {

/// The start table: what this training is about to do, on what, and at what cost. Collective.
StartFacts start_facts(const RunConfig& config, const Communicator& comm, const Network& network,
                       const Topology& topology, const Dataset& train_set, const Dataset& test_set,
                       const Loader& loader, std::size_t optimizer_buffers, const HaloPlace& halos);

}  // namespace halograd
