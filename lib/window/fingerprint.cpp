#include "window/fingerprint.hpp"

#include "kernels/random.hpp"

namespace halograd {

std::uint64_t fingerprint(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = numbers.size();
  for (const std::uint64_t number : numbers) hash = random_bits(hash, number);
  return hash;
}

std::uint64_t fingerprint(const Graph& graph) {
  std::uint64_t hash = graph.size();
  for (const std::vector<int>& neighbours : graph) {
    hash = random_bits(hash, neighbours.size());
    for (const int neighbour : neighbours) hash = random_bits(hash, static_cast<std::uint64_t>(neighbour));
  }
  return hash;
}

void require_same(const Communicator& comm, std::uint64_t fingerprint, const std::string& message) {
  const auto mine = static_cast<std::int64_t>(fingerprint >> 1U);
  comm.fail_together(comm.smallest(mine) == comm.largest(mine) ? "" : message);
}

}  // namespace halograd
