#include "run/averager_checks.hpp"

#include "graph/dynamic_topology.hpp"

namespace halograd {

namespace {

/// What goes with which graph.
std::optional<AveragerConflict> graph_conflict(const AveragerConfig& averager, const TopologyConfig& topology) {
  const std::string& kind = topology.kind;
  const std::string is = "; the averager is \"" + averager.name + "\"", of = "; topology.kind is \"" + kind + "\"";
  const bool changes = DynamicTopology::has_kind(kind);
  if (topology.weights == "out_degree" && averager.name != "push_sum") {
    return {{"weights", "topology.weights = \"out_degree\" is push_sum's" + is,
             "any other averager would let the mean of the replicas drift with them", "topology"}};
  }
  if (averager.name == "gossip_grad" && !changes) {
    return {{"kind", "the averager gossip_grad takes another partner each step" + of,
             "expected rotating_exponential (as published), one_peer_exponential or random_matching", "topology"}};
  }
  if (averager.name == "ad_psgd" && (changes || kind == "exponential")) {
    return {{"kind", "the averager ad_psgd needs a graph that stays, with edges both ways" + of,
             "for example complete, torus2d or ring: the pairs are drawn among its edges", "topology"}};
  }
  if (!changes) return std::nullopt;
  if (averager.name == "fast" || averager.name == "hierarchical") {
    return {{"kind", "the averager " + averager.name + " needs neighbours that stay the same" + of,
             "for example ring or torus2d", "topology"}};
  }
  if (averager.codec != "fp32") {
    return {{"codec", "averager.codec \"" + averager.codec + "\" needs neighbours that stay the same" + of,
             "take another graph, or codec = \"fp32\""}};
  }
  if (averager.momentum == "averaged" && averager.name == "neighbour") {
    return {{"momentum", "averager.momentum = \"averaged\" needs neighbours that stay the same" + of,
             "take another graph, or momentum = \"local\""}};
  }
  return std::nullopt;
}

/// Ranks that run apart, and what needs them together.
std::optional<AveragerConflict> staleness_conflict(const RunConfig& config) {
  const AveragerConfig& averager = config.averager;
  const std::string is = "; the averager is \"" + averager.name + "\"";
  const std::string key = averager.staleness != 0 ? "staleness" : "patience";
  const bool stale = averager.staleness != 0 || averager.patience > 0;
  if (config.comm.inject.drop_fraction > 0 &&
      (averager.name != "neighbour" || (averager.staleness >= 0 && averager.patience == 0))) {
    return {{"inject",
             "comm.inject.drop_fraction loses halos, but " +
                 (averager.name != "neighbour" ? "the averager \"" + averager.name + "\" needs all that is sent"
                                               : "with averager.staleness = " + std::to_string(averager.staleness) +
                                                     " and no averager.patience a rank waits for them without end"),
             "expected averager.name = \"neighbour\" with staleness = -1, or with patience above 0", "comm"}};
  }
  if (!stale) return std::nullopt;
  if (averager.name != "neighbour") {
    return {{key, "averager." + key + " is neighbour's, whose ranks need not wait for each other" + is, ""}};
  }
  if (DynamicTopology::has_kind(config.topology.kind)) {
    return {
        {key,
         "averager." + key + " needs neighbours that stay the same; topology.kind is \"" + config.topology.kind + "\"",
         "take another graph, or weights of the same step (staleness = 0, patience = 0)"}};
  }
  if (averager.global_every > 0 || averager.consensus_target > 0) {
    const std::string waiting = averager.global_every > 0 ? "global_every" : "consensus_target";
    return {{key, "averager." + key + " lets ranks run apart, averager." + waiting + " waits for all of them",
             "leave one of them out"}};
  }
  if (averager.codec != "fp32") {
    return {{"codec",
             "averager.codec \"" + averager.codec + "\" sends differences, of which none may be missed, but averager." +
                 key + " lets ranks miss some",
             "codec = \"fp32\", or staleness = 0 and patience = 0"}};
  }
  return std::nullopt;
}

/// Halos in device memory, asked for where there are none.
std::optional<AveragerConflict> device_conflict(const RunConfig& config) {
  if (config.comm.device_windows != "on") return std::nullopt;
  const AveragerConfig& averager = config.averager;
  const std::string& kind = config.topology.kind;
  const bool changes = DynamicTopology::has_kind(kind);
  if (averager.name == "neighbour" && averager.codec == "fp32" && !changes) return std::nullopt;
  return {
      {"device_windows",
       "comm.device_windows is for the averager \"neighbour\" with codec \"fp32\" and neighbours that stay the same; " +
           (averager.name != "neighbour" ? "the averager is \"" + averager.name + "\""
            : changes                    ? "topology.kind is \"" + kind + "\""
                                         : "the codec is \"" + averager.codec + "\""),
       "leave it at \"auto\"", "comm"}};
}

}  // namespace

std::optional<AveragerConflict> averager_conflict(const RunConfig& config) {
  if (auto conflict = staleness_conflict(config)) return conflict;
  if (auto conflict = device_conflict(config)) return conflict;
  if (auto conflict = graph_conflict(config.averager, config.topology)) return conflict;
  const AveragerConfig& averager = config.averager;
  const std::string is = "; the averager is \"" + averager.name + "\"";
  const bool under_way = averager.name == "push_sum" || averager.name == "ad_psgd";
  const bool of_weights = averager.name != "allreduce" && averager.name != "none" && averager.name != "gossip_grad";
  if (averager.overlap && averager.name != "push_sum") {
    return {{"overlap", "averager.overlap is push_sum's" + is, ""}};
  }
  if (under_way && (averager.global_every > 0 || averager.consensus_target > 0)) {
    const std::string key = averager.global_every > 0 ? "global_every" : "consensus_target";
    return {{key,
             "averager." + key + " looks at all replicas at once, between which something is always under way" + is,
             "averager.name = \"neighbour\" can do it"}};
  }
  if (!of_weights && (averager.every > 1 || averager.consensus_target > 0)) {
    const std::string key = averager.every > 1 ? "every" : "consensus_target";
    return {{key, "averager." + key + " is for averagers of weights" + is,
             "local SGD is averager.name = \"none\" with averager.global_every"}};
  }
  if (averager.global_every > 0 && averager.name == "allreduce") {
    return {{"global_every", "averager.global_every is for replicas that differ" + is, "leave it out"}};
  }
  if (averager.consensus_target > 0 && averager.every == 1) {
    return {{"consensus_target",
             "averager.consensus_target chooses the steps between exchanges, averager.every = 1 "
             "leaves no choice",
             "set averager.every to the most steps, for example 32"}};
  }
  if (averager.codec != "fp32" && averager.name != "neighbour") {
    return {{"codec", "averager.codec \"" + averager.codec + "\" is for the averager \"neighbour\"" + is, ""}};
  }
  if (averager.momentum == "averaged") {
    const bool weights = averager.name == "neighbour" || averager.global_every > 0;
    if (!weights) return {{"momentum", "averager.momentum = \"averaged\" is for averagers of weights" + is, ""}};
    if (config.optimizer.name == "sgd" && config.optimizer.momentum == 0) {
      return {{"momentum", "averager.momentum is \"averaged\", but sgd without optimizer.momentum keeps none", ""}};
    }
  }
  return std::nullopt;
}

}  // namespace halograd
