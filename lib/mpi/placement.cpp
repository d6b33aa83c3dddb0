#include "mpi/placement.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "kernels/accelerator.hpp"
#include "kernels/error.hpp"
#include "support/devices.hpp"

namespace halograd {
namespace {

constexpr std::size_t shown_ranks = 8;  // of a node, where each has places of its own

/// "0-3,8" for the numbers that are in the list, which is in order.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (end > i + 1) text.append(1, '-').append(std::to_string(numbers[end - 1]));
    i = end;
  }
  return text;
}

/// Cores of all threads of this process together: OpenMP may have bound the first thread to one of them.
std::string own_cores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(std::atoi(task.path().filename().c_str()), sizeof(cores), &cores) == 0)
      CPU_OR(&all, &all, &cores);
  }
  std::vector<int> numbers;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) numbers.push_back(core);
  }
  return ranges(numbers);
}

std::string own_device(int device) {
  if (device < 0) return "";
  const std::vector<std::string> visible = visible_devices();
  const auto position = static_cast<std::size_t>(device);
  return position < visible.size() ? visible[position] : std::to_string(device);
}

std::string own_places(const RankPlace& place) {
  return "cores " + place.cores + (place.device.empty() ? "" : ", device " + place.device);
}

}  // namespace

std::string node_name() {
  if (const char* node = std::getenv("SLURMD_NODENAME")) return node;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<NodePlaces> places_by_node(const std::vector<RankPlace>& ranks) {
  std::vector<NodePlaces> nodes;
  for (const RankPlace& first : ranks) {
    const auto named = [&](const NodePlaces& entry) { return entry.node == first.node; };
    if (std::any_of(nodes.begin(), nodes.end(), named)) continue;
    std::vector<int> here;
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
      if (ranks[rank].node == first.node) here.push_back(rank);
    }
    const bool shared = std::all_of(here.begin(), here.end(), [&](int rank) {
      return ranks[rank].cores == first.cores && ranks[rank].device == first.device;
    });
    NodePlaces& entry = nodes.emplace_back();
    entry.node = first.node;
    if (shared && here.size() > 1) {
      entry.text = "ranks " + ranges(here) + " share " + own_places(first);
      continue;
    }
    for (std::size_t i = 0; i < std::min(here.size(), shown_ranks); ++i) {
      if (i > 0) entry.text += "; ";
      entry.text += "rank " + std::to_string(here[i]) + ": " + own_places(ranks[here[i]]);
    }
    if (here.size() > shown_ranks) entry.text += "; and " + std::to_string(here.size() - shown_ranks) + " more ranks";
  }
  return nodes;
}

void require_devices(const std::vector<RankPlace>& ranks, int most) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> sharing;  // by node and address
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    if (!ranks[rank].address.empty()) sharing[{ranks[rank].node, ranks[rank].address}].push_back(rank);
  }
  for (const auto& [device, here] : sharing) {
    HALOGRAD_REQUIRE(static_cast<int>(here.size()) <= most, "ranks ", ranges(here), " share the device ", device.second,
                     " of node ", device.first, ", expected at most ", most,
                     " (training.ranks_per_device): start fewer ranks per node, ask for more devices "
                     "(--gpus-per-task=1), or raise that limit");
  }
}

std::vector<RankPlace> gather_places(const Communicator& comm, int device) {
  constexpr std::size_t longest = 256;  // of each of the four, with an end
  std::array<char, 4 * longest> mine{};
  const std::array<std::string, 4> texts{node_name(), own_cores(), own_device(device),
                                         device < 0 ? "" : accelerator_address(device)};
  for (std::size_t i = 0; i < texts.size(); ++i) std::strncpy(mine.data() + i * longest, texts[i].c_str(), longest - 1);
  const std::vector<char> all = comm.gather_on_root(std::span<const char>(mine));
  std::vector<RankPlace> places;
  for (std::size_t at = 0; at < all.size(); at += mine.size())
    places.push_back({&all[at], &all[at + longest], &all[at + 2 * longest], &all[at + 3 * longest]});
  return places;
}

}  // namespace halograd
