#include "comm/averager.hpp"

#include <cmath>

#include "comm/averagers.hpp"
#include "kernels/error.hpp"

namespace halograd {

std::unique_ptr<Averager> make_averager(const AveragerContext& context) {
  const std::string& name = context.averager.name;
  if (name == "none") return make_none_averager();
  if (name == "allreduce") return make_allreduce_averager(context);
  if (name == "neighbour" && context.topology.dynamic() != nullptr) return make_dynamic_neighbour_averager(context);
  if (name == "neighbour") return make_neighbour_averager(context);
  if (name == "push_sum") return make_push_sum_averager(context);
  if (name == "ad_psgd") return make_ad_psgd_averager(context);
  if (name == "gossip_grad") return make_gossip_grad_averager(context);
  fail("averager.name is \"", name, "\"; expected none, allreduce, neighbour, push_sum, ad_psgd or gossip_grad");
}

std::int64_t bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length) {
  const auto model = static_cast<std::int64_t>(length * sizeof(float));
  if (averager.name == "allreduce") return allreduce_bytes(topology.ranks(), length);
  if (const DynamicTopology* dynamic = topology.dynamic(); dynamic != nullptr && averager.name != "none") {
    return std::llround(dynamic->mean_out(rank) * static_cast<double>(model));
  }
  if (averager.name == "ad_psgd") return topology.ranks() > 1 ? model : 0;  // a question or an answer
  if (averager.name == "neighbour" || averager.name == "push_sum")
    return static_cast<std::int64_t>(topology.out_neighbours(rank).size()) * model;
  return 0;
}

}  // namespace halograd
