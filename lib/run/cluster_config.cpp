#include "run/cluster_config.hpp"

#include "config/document.hpp"
#include "config/table_reader.hpp"
#include "support/text_file.hpp"

namespace halograd {

template <class Visitor>
void visit(Visitor& v, ClusterConfig& c) {
  v("nodes", c.nodes, "nodes of the job", at_least(1));
  v("ranks_per_node", c.ranks_per_node, "ranks that share a node's network", at_least(1));
  v("latency_us", c.latency_us, "microseconds from node to node", above(0));
  v("bandwidth_gb", c.bandwidth_gb, "bandwidth of a node's network per direction, in 1e9 bytes per second", above(0));
  v("transport_ns", c.transport_ns,
    "nanoseconds of a rank's computing that moving a byte to another node, and one from there, takes", at_least(0));
  v("memory_gb", c.memory_gb, "memory of a node, in 1e9 bytes; 0: not checked", at_least(0));
  v("spread", c.spread, "standard deviation of a rank's computing from step to step, relative to its mean",
    between(0, 1));
  v("slowest", c.slowest, "factor by which the slowest rank's computing takes longer, in every step", at_least(1));
}

ClusterConfig read_cluster(const std::string& path) {
  const Node document = parse_document(read_text(path), path);
  ClusterConfig cluster;
  read_table(document, "a cluster's description", "", cluster);
  return cluster;
}

}  // namespace halograd
