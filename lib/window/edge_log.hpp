#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/edge_record.hpp"

namespace halograd {

/// Counts what comes over the in-edges of a rank, in a few additions a halo.
class EdgeLog {
 public:
  EdgeLog() = default;
  /// `from`: the rank at the other end of each edge.
  EdgeLog(const std::vector<int>& from, std::size_t halo_bytes)
      : records_(from.size()), halo_bytes_(static_cast<std::int64_t>(halo_bytes)) {
    for (std::size_t edge = 0; edge < records_.size(); ++edge) records_[edge].from = from[edge];
  }

  void taken(int edge, std::int64_t versions_later, double delay) {
    EdgeRecord& record = at(edge);
    ++record.halos;
    record.skipped += versions_later - 1;
    record.bytes += halo_bytes_;
    record.delay += delay;
    record.least_delay = std::min(record.least_delay, delay);
  }
  void mixed(int edge, std::int64_t age) {
    std::size_t bin = 0;
    for (const std::int64_t least : {1, 2, 3, 4, 8, 16, 32}) bin += age >= least ? 1 : 0;
    ++at(edge).staleness[bin];
  }
  void left_out(int edge) { ++at(edge).left_out; }
  void waited(int edge, double seconds) { at(edge).wait += seconds; }

  /// What was counted since the last call.
  std::vector<EdgeRecord> take() {
    std::vector<EdgeRecord> records(records_.size());
    for (std::size_t edge = 0; edge < records.size(); ++edge) records[edge].from = records_[edge].from;
    std::swap(records, records_);
    return records;
  }

 private:
  EdgeRecord& at(int edge) { return records_[static_cast<std::size_t>(edge)]; }

  std::vector<EdgeRecord> records_;
  std::int64_t halo_bytes_ = 0;
};

}  // namespace halograd
