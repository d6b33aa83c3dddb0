#pragma once

#include <cstdint>
#include <memory>

#include "comm/averager.hpp"

/// What make_averager chooses from; one file each.
namespace halograd {

/// Every rank trains alone.
std::unique_ptr<Averager> make_none_averager();

/// g <- sum_i share_i g_i over all ranks, by MPI_Iallreduce: P ranks make the steps that one rank makes with the
/// batches of all. Collective.
std::unique_ptr<Averager> make_allreduce_averager(const AveragerContext& context);

/// What it sends a rank and step: that of a ring or reduce-scatter algorithm, which send least; MPI chooses, and does
/// not tell.
std::int64_t allreduce_bytes(int ranks, std::size_t length);

/// x_i <- W_ii x_i + sum_j W_ij x_j over the in-neighbours of a topology, synchronously, through a HaloWindow.
/// Collective.
std::unique_ptr<Averager> make_neighbour_averager(const AveragerContext& context);

}  // namespace halograd
