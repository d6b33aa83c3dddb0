#include "comm/averager.hpp"

#include "comm/averagers.hpp"
#include "kernels/error.hpp"

namespace halograd {

std::unique_ptr<Averager> make_averager(const AveragerContext& context) {
  const std::string& name = context.averager.name;
  if (name == "none") return make_none_averager();
  if (name == "allreduce") return make_allreduce_averager(context);
  if (name == "neighbour") return make_neighbour_averager(context);
  fail("averager.name is \"", name, "\"; expected none, allreduce or neighbour");
}

std::int64_t bytes_per_step(const AveragerConfig& averager, const Topology& topology, int rank, std::size_t length) {
  const auto model = static_cast<std::int64_t>(length * sizeof(float));
  if (averager.name == "allreduce") return allreduce_bytes(topology.ranks(), length);
  if (averager.name == "neighbour") return static_cast<std::int64_t>(topology.out_neighbours(rank).size()) * model;
  return 0;
}

}  // namespace halograd
