#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "graph/graphs.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// One number for several, or for a graph, by which ranks compare what they made a window with.
[[nodiscard]] std::uint64_t fingerprint(std::initializer_list<std::uint64_t> numbers);
[[nodiscard]] std::uint64_t fingerprint(const Graph& graph);

/// Collective. Throws CollectiveError with `message` on all ranks unless all have the same fingerprint.
void require_same(const Communicator& comm, std::uint64_t fingerprint, const std::string& message);

}  // namespace halograd
