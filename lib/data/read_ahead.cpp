#include "data/read_ahead.hpp"

#include <algorithm>

namespace halograd {

ReadAhead::ReadAhead(const BlockCache& cache, int threads, long most_blocks)
    : cache_(cache), layout_(cache.source().layout()), thread_count_(threads), most_blocks_(most_blocks) {}

void ReadAhead::start(std::span<const long> rows) {
  stop();
  const std::lock_guard<std::mutex> lock(mutex_);
  planned_.clear();
  sequence_.clear();
  for (const long row : rows) {
    const long block = layout_.block_of(row);
    const auto [entry, added] = planned_.try_emplace(block);
    if (added) {
      entry->second.place = static_cast<long>(sequence_.size());
      sequence_.push_back(block);
    }
    ++entry->second.rows_left;
  }
  next_ = 0;
  held_ = 0;
  demanded_ = -1;
  stopping_ = false;
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(thread_count_), sequence_.size());
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { fetch(); });
}

void ReadAhead::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  fetched_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Block ReadAhead::take(long row) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto entry = planned_.find(layout_.block_of(row));
  if (entry == planned_.end()) return nullptr;
  Planned& planned = entry->second;
  if (planned.bytes == nullptr && !planned.error) {
    demanded_ = std::max(demanded_, planned.place);
    wanted_.notify_all();
    fetched_.wait(lock, [&] { return planned.bytes != nullptr || planned.error || stopping_; });
  }
  if (planned.error) std::rethrow_exception(planned.error);
  Block bytes = planned.bytes;
  if (bytes == nullptr) return nullptr;
  if (--planned.rows_left == 0) {
    planned_.erase(entry);
    --held_;
    wanted_.notify_one();
  }
  return bytes;
}

void ReadAhead::fetch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] {
      return stopping_ || next_ == sequence_.size() || held_ < most_blocks_ || static_cast<long>(next_) <= demanded_;
    });
    if (stopping_ || next_ == sequence_.size()) return;
    const long block = sequence_[next_++];
    ++held_;
    lock.unlock();
    Block bytes;
    std::exception_ptr error;
    try {
      bytes = cache_.get(block);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    Planned& planned = planned_.at(block);  // nobody takes its last row before it is there
    planned.bytes = std::move(bytes);
    planned.error = error;
    fetched_.notify_all();
  }
}

}  // namespace halograd
