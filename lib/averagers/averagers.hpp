#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "averagers/averager.hpp"

/// What averagers share with each other, and not with the rest of the program.
namespace halograd {

/// The averager of the configuration every averager.every steps, or as often as averager.consensus_target asks for, and
/// an exact global average every averager.global_every steps. Collective.
std::unique_ptr<Averager> make_periodic_averager(const AveragerContext& context);

/// Bytes per rank of that exact average of `length` values.
std::int64_t exact_average_bytes(int ranks, std::size_t length);

/// The all-reduce of gradients starts as soon as this many values are complete: long enough for the bandwidth, short
/// enough that the first ones travel beside the backward pass.
constexpr std::size_t bucket_floats = std::size_t{1} << 20;

/// all_reduce_bytes() of an exchange, for rows.
double sends_allreduce(const ExchangeSize& size);

/// Neighbour averaging on a topology that changes in each step, through a PortWindow. Collective.
std::unique_ptr<Averager> make_dynamic_neighbour_averager(const AveragerContext& context);

/// Neighbour averaging with an averager.codec that codes: x_i <- x_i + gamma sum_j W_ij (e_j - e_i) with estimates e
/// that follow the replicas by coded differences. Collective.
std::unique_ptr<Averager> make_compressed_averager(const AveragerContext& context);

}  // namespace halograd
