#include "averagers/averager.hpp"

#include <cmath>

#include "averagers/averagers.hpp"
#include "kernels/error.hpp"

namespace halograd {

bool works_beside_gradient(const AveragerConfig& averager) {
  return averager.name == "allreduce" || averager.name == "easgd";
}

std::unique_ptr<Averager> make_averager(const AveragerContext& context) {
  const AveragerConfig& averager = context.averager;
  const bool periodic = averager.every > 1 || averager.global_every > 0 || averager.consensus_target > 0;
  return periodic ? make_periodic_averager(context) : make_every_step_averager(context);
}

std::unique_ptr<Averager> make_every_step_averager(const AveragerContext& context) {
  const std::string& name = context.averager.name;
  if (name == "none") return make_none_averager();
  if (name == "allreduce") return make_allreduce_averager(context);
  if (name == "neighbour" && context.topology.dynamic() != nullptr) return make_dynamic_neighbour_averager(context);
  if (name == "neighbour") return make_neighbour_averager(context);
  if (name == "push_sum") return make_push_sum_averager(context);
  if (name == "ad_psgd") return make_ad_psgd_averager(context);
  if (name == "gossip_grad") return make_gossip_grad_averager(context);
  if (name == "easgd") return make_elastic_averager(context);
  if (name == "fast") return make_fast_averager(context);
  if (name == "hierarchical") return make_hierarchical_averager(context);
  fail("averager.name is \"", name,
       "\"; expected none, allreduce, neighbour, push_sum, ad_psgd, gossip_grad, easgd, fast or hierarchical");
}

namespace {

double bytes_per_exchange(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length,
                          std::size_t parts, int ranks_per_node) {
  const std::string& name = averager.name;
  const auto model = static_cast<double>(length * sizeof(float));
  if (name == "none") return 0;
  if (name == "allreduce" || name == "easgd") return static_cast<double>(allreduce_bytes(topology.ranks(), length));
  if (const DynamicTopology* dynamic = topology.dynamic()) return dynamic->mean_out(rank) * model;
  if (name == "ad_psgd") return topology.ranks() > 1 ? model : 0;  // a question or an answer
  if (name == "hierarchical") {
    const auto slices = static_cast<std::size_t>(ranks_per_node);
    const std::size_t slice = (length + slices - 1) / slices;
    return static_cast<double>(topology.out_neighbours(rank / ranks_per_node).size() * slice * sizeof(float));
  }
  const auto neighbours = static_cast<double>(topology.out_neighbours(rank).size());
  if (name == "fast") return neighbours * (model + sizeof(float));  // and the share of the gradient
  if (name == "neighbour") return neighbours * static_cast<double>(parts * halo_bytes(averager, length));
  return neighbours * model;
}

}  // namespace

double bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length,
                      std::size_t optimizer_buffers, int ranks_per_node) {
  const std::size_t parts = averager.momentum == "averaged" ? 1 + optimizer_buffers : 1;
  const double exchange = bytes_per_exchange(averager, topology, rank, length, parts, ranks_per_node);
  const auto exact =
      static_cast<double>(parts) * static_cast<double>(exact_average_bytes(topology.ranks() * ranks_per_node, length));
  return exchange / averager.every + (averager.global_every > 0 ? exact / averager.global_every : 0);
}

}  // namespace halograd
