#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "config/comm_config.hpp"
#include "graph/topology.hpp"
#include "mpi/communicator.hpp"
#include "window/halo_values.hpp"

namespace halograd {

/// Where the halos of a training lie.
struct HaloPlace {
  HaloMemory memory = HaloMemory::host;
  std::string reason{};  ///< why not in device memory, where some rank's kernels run on a device
};

/// Collective. Where an averager's halos may lie in device memory: device memory where comm.device_windows does not
/// forbid it, every rank's kernels run on a device, every rank's MPI says that it reads and writes that device's
/// memory, and require_device_windows() finds that it does. Throws CollectiveError, with what is missing, where
/// comm.device_windows = "on" and they cannot. `length`: of the weights.
HaloPlace choose_halo_place(const CommConfig& config, const Topology& topology, const Communicator& comm,
                            std::size_t length);

/// Collective. The self-test of a start: every rank puts patterns from device memory through a HaloWindow to each of
/// its out-neighbours, into every slot, and reads back what has come from the in-neighbours. Throws CollectiveError
/// where it is anything else on any rank. `length` values, at most 2^20; with no neighbours there is nothing to try.
void require_device_windows(const Communicator& comm, const Topology& topology, const CommConfig& config,
                            std::size_t length);

/// Value `i` of the pattern that rank `origin` puts as its `version`.
float pattern_value(int origin, std::int64_t version, std::size_t i);

/// What in a halo in device memory is not the pattern; empty: it is all there.
std::string pattern_fault(Vector<const float> halo, int origin, std::int64_t version);

}  // namespace halograd
