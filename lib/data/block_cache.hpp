#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "data/blocks.hpp"
#include "data/disk_cache.hpp"

namespace halograd {

/// Blocks by the nearest level that has them: this process's memory, a folder on the node's own disk that its ranks
/// share, the file (multi-level data caching, Shi et al. 2020, arXiv:2010.10458). A level takes blocks until it is full
/// and then keeps what it has: in a shuffled order no block is likelier to be wanted next than another.
class BlockCache {
 public:
  /// `source` must outlive this. An empty folder: no disk level. What is wrong with the folder is a warning.
  BlockCache(const BlockSource& source, std::size_t memory_bytes, const std::string& folder, Warn warn);

  [[nodiscard]] const BlockSource& source() const { return source_; }
  /// Safe to call from several threads. Throws Error where the source does.
  [[nodiscard]] Block get(long block) const;
  /// Whether get would find it nearer than the source, or keep it.
  [[nodiscard]] bool keeps(long block) const;

 private:
  void keep(long block, const Block& bytes) const;

  const BlockSource& source_;
  BlockLayout layout_;
  std::size_t memory_bytes_;
  std::unique_ptr<DiskCache> disk_;
  mutable std::mutex mutex_;  // guards the two that follow
  mutable std::unordered_map<long, Block> memory_;
  mutable std::size_t memory_used_ = 0;
};

}  // namespace halograd
