#pragma once

#include <string>

#include "graph/topology.hpp"

namespace halograd {

/// Reads a mixing graph from TOML:
///
///     ranks = 4
///     [[edge]]
///     from = 0        # its weights enter the average ...
///     to = 1          # ... of this rank
///     weight = 0.25   # with this factor; on all edges or on none
///
/// Edges are directed; the self weight of a rank is what is left to 1. `weights` is the run file's topology.weights:
/// with "automatic" the file may give the weights; where it gives none, or with another rule, that rule does.
/// Throws Error, with file, line and caret where one place is to blame, for a file that cannot be read, unknown or
/// mistyped keys, ranks out of range, a repeated edge, another number of ranks than `ranks`, and whatever Topology
/// refuses.
Topology read_topology_file(const std::string& path, const std::string& weights, int ranks);

}  // namespace halograd
