#pragma once

#include <cstdint>
#include <memory>

#include "averagers/averager.hpp"

/// What make_averager chooses from; one file each.
namespace halograd {

/// One of the following by name, in every step.
std::unique_ptr<Averager> make_every_step_averager(const AveragerContext& context);

/// One of them every averager.every steps, or as often as averager.consensus_target asks for, and an exact global
/// average every averager.global_every steps. Collective.
std::unique_ptr<Averager> make_periodic_averager(const AveragerContext& context);

/// What that exact average of `length` values sends a rank.
std::int64_t exact_average_bytes(int ranks, std::size_t length);

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

/// The same on a topology that changes each step, through a PortWindow. Collective.
std::unique_ptr<Averager> make_dynamic_neighbour_averager(const AveragerContext& context);

/// Push-sum on directed graphs, that change or stay. Collective.
std::unique_ptr<Averager> make_push_sum_averager(const AveragerContext& context);

/// Asynchronous averages of pairs of neighbours. Collective.
std::unique_ptr<Averager> make_ad_psgd_averager(const AveragerContext& context);

/// Gradients averaged with one partner, another in each step. Collective.
std::unique_ptr<Averager> make_gossip_grad_averager(const AveragerContext& context);

/// The same where averager.codec is not fp32: x_i <- x_i + gamma sum_j W_ij (e_j - e_i) with estimates e that follow
/// the replicas by coded differences. Collective.
std::unique_ptr<Averager> make_compressed_averager(const AveragerContext& context);

/// Of one replica, or one buffer of the optimizer, as averager.codec sends it.
std::size_t halo_bytes(const AveragerConfig& averager, std::size_t length);

/// x_i <- x_i - alpha (x_i - c), c <- c + alpha sum_i (x_i - c) (EASGD). Collective.
std::unique_ptr<Averager> make_elastic_averager(const AveragerContext& context);

/// The exact mean inside a node, then the stencil of a topology of nodes. Collective.
std::unique_ptr<Averager> make_hierarchical_averager(const AveragerContext& context);

/// A further step of the optimizer with the gradient of each in-neighbour (FAST). Collective.
std::unique_ptr<Averager> make_fast_averager(const AveragerContext& context);

}  // namespace halograd
