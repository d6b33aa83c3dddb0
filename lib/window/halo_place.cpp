#include "window/halo_place.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "mpi/gpu_aware_mpi.hpp"
#include "window/halo_window.hpp"
#include "window/transport_options.hpp"

namespace halograd {
namespace {

constexpr std::size_t most_floats = std::size_t{1} << 20U;  // more than MPIs send along with an announcement

/// What is missing on this rank, to begin with.
std::string missing_here(int rank) {
  const std::string of = "of rank " + std::to_string(rank);
  if (runs_on_host) return "the program " + of + " was built for cores, not for devices";
  if (mpi_says_gpu_aware()) return "";
  return "the MPI " + of + " does not report that it can access device memory (GPU-aware)";
}

}  // namespace

HaloPlace choose_halo_place(const CommConfig& config, const Topology& topology, const Communicator& comm,
                            std::size_t length) {
  const bool on_some_device = comm.largest(runs_on_host ? 0 : 1) > 0;
  const auto in_host_memory = [&](const std::string& reason) {
    return HaloPlace{HaloMemory::host, on_some_device ? reason : ""};
  };
  const DeviceWindows& asked = row_of(device_windows, config.device_windows, "comm.device_windows");
  if (asked.forbidden) return in_host_memory("comm.device_windows is \"off\"");
  try {
    comm.fail_together(missing_here(comm.rank()));
    require_device_windows(comm, topology, config, length);
  } catch (const CollectiveError& error) {
    if (!asked.required) return in_host_memory(error.what());
    throw CollectiveError("comm.device_windows is \"on\", but " + std::string(error.what()), error.of_all_ranks(),
                          error.foreign());
  }
  return {HaloMemory::device};
}

void require_device_windows(const Communicator& comm, const Topology& topology, const CommConfig& config,
                            std::size_t length) {
  length = std::min(length, most_floats);
  HaloWindow::Options options{transport_options(config)};
  options.slots = 2;
  options.inject = {};
  options.memory = HaloMemory::device;
  const int rank = comm.rank();
  std::string fault;
  {  // the window goes before an exception may
    HaloWindow window(comm, topology, length, options);
    window.start_at(0);
    std::vector<float> pattern(length);
    const Buffer<float> weights("halograd::pattern", length);
    for (std::int64_t version = 1; version <= options.slots; ++version) {
      for (std::size_t i = 0; i < length; ++i) pattern[i] = pattern_value(rank, version, i);
      Kokkos::deep_copy(weights, HostVector<const float>(pattern.data(), length));
      window.put(version, HaloValues<const float>::on_device(weights));
      window.flush();
      const auto& neighbours = topology.in_neighbours(rank);
      for (int edge = 0; edge < static_cast<int>(neighbours.size()); ++edge) {
        const HaloValues<const float> halo = window.wait(edge, version);
        if (fault.empty()) fault = pattern_fault(halo.device(), neighbours[edge].rank, version);
        window.release(edge, version);
      }
    }
  }
  const std::string where = "the self-test of device windows failed on rank " + std::to_string(rank) + ": ";
  comm.fail_together(fault.empty() ? "" : where + fault);
}

float pattern_value(int origin, std::int64_t version, std::size_t i) {
  return random_uniform((static_cast<std::uint64_t>(origin) << 32U) + static_cast<std::uint64_t>(version), i);
}

std::string pattern_fault(Vector<const float> halo, int origin, std::int64_t version) {
  std::vector<float> found(halo.extent(0));
  Kokkos::deep_copy(HostVector<float>(found.data(), found.size()), halo);
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = found.size(); i-- > 0;) {
    if (found[i] == pattern_value(origin, version, i)) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "";
  std::ostringstream text;
  text << wrong << " of " << found.size() << " values from rank " << origin << " read back differently, number "
       << first << " as " << found[first] << " instead of " << pattern_value(origin, version, first);
  return text.str();
}

}  // namespace halograd
