#include "averagers/averager.hpp"

#include "averagers/averagers.hpp"

namespace halograd {

std::unique_ptr<Averager> make_averager(const AveragerContext& context) {
  const AveragerConfig& averager = context.averager;
  const bool periodic = averager.every > 1 || averager.global_every > 0 || averager.consensus_target > 0;
  return periodic ? make_periodic_averager(context) : row_of(averager).make(context);
}

double bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length,
                      std::size_t optimizer_buffers, int ranks_per_node) {
  const std::size_t parts = averages_momentum(averager) ? 1 + optimizer_buffers : 1;
  const double exchange =
      row_of(averager).bytes_per_exchange(ExchangeSize{averager, topology, rank, length, parts, ranks_per_node});
  const auto exact =
      static_cast<double>(parts) * static_cast<double>(exact_average_bytes(topology.ranks() * ranks_per_node, length));
  return exchange / averager.every + (averager.global_every > 0 ? exact / averager.global_every : 0);
}

}  // namespace halograd
