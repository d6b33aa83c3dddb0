#include "config/averager_checks.hpp"

namespace halograd {

std::optional<AveragerConflict> averager_conflict(const RunConfig& config) {
  const AveragerConfig& averager = config.averager;
  const std::string is = "; the averager is \"" + averager.name + "\"";
  const bool stale = averager.staleness != 0 || averager.patience > 0;
  const std::string key_of_stale = averager.staleness != 0 ? "staleness" : "patience";
  const bool collective = averager.name == "allreduce" || averager.name == "easgd" || averager.name == "hierarchical";
  if (stale && (collective || averager.name == "fast")) {
    const std::string for_whom = averager.name == "hierarchical" ? "all ranks of its node"
                                 : collective                    ? "all ranks"
                                                                 : "each neighbour's gradient";
    return {{key_of_stale, "averager." + key_of_stale + " is for ranks that need not wait for each other" + is,
             averager.name + " waits for " + for_whom + "; averager.name = \"neighbour\" can do without"}};
  }
  if (stale && (averager.global_every > 0 || averager.consensus_target > 0)) {
    const std::string waiting = averager.global_every > 0 ? "global_every" : "consensus_target";
    return {{key_of_stale,
             "averager." + key_of_stale + " lets ranks run apart, averager." + waiting + " waits for all of them",
             "leave one of them out"}};
  }
  if (averager.every > 1 && (averager.name == "allreduce" || averager.name == "none")) {
    return {{"every", "averager.every is for averagers of weights" + is,
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
  if (averager.codec != "fp32" && stale) {
    return {{"codec",
             "averager.codec \"" + averager.codec + "\" sends differences, of which none may be missed, but averager." +
                 key_of_stale + " lets ranks miss some",
             "codec = \"fp32\", or staleness = 0 and patience = 0"}};
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
