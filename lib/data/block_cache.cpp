#include "data/block_cache.hpp"

#include <utility>

namespace halograd {

BlockCache::BlockCache(const BlockSource& source, std::size_t memory_bytes, const std::string& folder, Warn warn)
    : source_(source), layout_(source.layout()), memory_bytes_(memory_bytes) {
  if (!folder.empty()) disk_ = std::make_unique<DiskCache>(folder, source.name(), source.identity(), std::move(warn));
}

Block BlockCache::get(long block) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = memory_.find(block);
    if (found != memory_.end()) return found->second;
  }
  const Range rows = layout_.rows_of(block);
  auto bytes = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(rows.size()) * layout_.row_bytes);
  if (disk_ == nullptr || !disk_->read(block, *bytes)) {
    source_.read(rows.begin, rows.size(), bytes->data());
    if (disk_ != nullptr) disk_->write(block, *bytes);
  }
  keep(block, bytes);
  return bytes;
}

bool BlockCache::keeps(long block) const {
  if (disk_ != nullptr && disk_->keeps(block)) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Range rows = layout_.rows_of(block);
  const std::size_t bytes = static_cast<std::size_t>(rows.size()) * layout_.row_bytes;
  return memory_.count(block) > 0 || memory_used_ + bytes <= memory_bytes_;
}

void BlockCache::keep(long block, const Block& bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (memory_used_ + bytes->size() > memory_bytes_) return;
  if (memory_.emplace(block, bytes).second) memory_used_ += bytes->size();
}

}  // namespace halograd
