#include "comm/averager.hpp"

#include "comm/averagers.hpp"
#include "kernels/error.hpp"

namespace halograd {

std::unique_ptr<Averager> make_averager(const AveragerContext& context) {
  const AveragerConfig& averager = context.averager;
  const bool periodic = averager.every > 1 || averager.global_every > 0 || averager.consensus_target > 0;
  return periodic ? make_periodic_averager(context) : make_every_step_averager(context);
}

std::unique_ptr<Averager> make_every_step_averager(const AveragerContext& context) {
  const std::string& name = context.averager.name;
  if (name == "none") return make_none_averager();
  if (name == "allreduce") return make_allreduce_averager(context);
  if (name == "neighbour") return make_neighbour_averager(context);
  if (name == "easgd") return make_elastic_averager(context);
  if (name == "fast") return make_fast_averager(context);
  if (name == "hierarchical") return make_hierarchical_averager(context);
  fail("averager.name is \"", name, "\"; expected none, allreduce, neighbour, easgd, fast or hierarchical");
}

namespace {

std::int64_t bytes_per_exchange(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length,
                                std::size_t parts, int ranks_a_node) {
  if (averager.name == "hierarchical") {
    const auto slices = static_cast<std::size_t>(ranks_a_node);
    const std::size_t slice = (length + slices - 1) / slices;
    return static_cast<std::int64_t>(topology.out_neighbours(rank / ranks_a_node).size() * slice * sizeof(float));
  }
  if (averager.name == "allreduce" || averager.name == "easgd") return allreduce_bytes(topology.ranks(), length);
  if (averager.name == "fast") {
    return static_cast<std::int64_t>(topology.out_neighbours(rank).size() * (length + 1) * sizeof(float));
  }
  if (averager.name == "neighbour") {
    return static_cast<std::int64_t>(topology.out_neighbours(rank).size() * parts * halo_bytes(averager, length));
  }
  return 0;
}

}  // namespace

double bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length,
                      std::size_t optimizer_buffers, int ranks_a_node) {
  const std::size_t parts = averager.momentum == "averaged" ? 1 + optimizer_buffers : 1;
  const auto exchange = static_cast<double>(bytes_per_exchange(averager, topology, rank, length, parts, ranks_a_node));
  const auto exact =
      static_cast<double>(parts) * static_cast<double>(exact_average_bytes(topology.ranks() * ranks_a_node, length));
  return exchange / averager.every + (averager.global_every > 0 ? exact / averager.global_every : 0);
}

}  // namespace halograd
