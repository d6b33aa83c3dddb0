#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "data/block_cache.hpp"

namespace halograd {

/// Threads that fetch blocks in the order in which their rows will be read, and hold each until its last row was.
class ReadAhead {
 public:
  /// `cache` must outlive this. At most `most_blocks` are held at a time, unless a reader waits for one beyond.
  ReadAhead(const BlockCache& cache, int threads, long most_blocks);
  ~ReadAhead() { stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Drops what was planned before. `rows` may be read once each for a name in it.
  void start(std::span<const long> rows);
  void stop();
  /// The block of a row, waiting for it; counts the row as read. Null where the row was not planned. Throws the Error
  /// that was met when the block was fetched.
  [[nodiscard]] Block take(long row);

 private:
  struct Planned {
    long place = 0;  ///< in sequence_
    long rows_left = 0;
    Block bytes;
    std::exception_ptr error;
  };
  void fetch();

  const BlockCache& cache_;
  BlockLayout layout_;
  int thread_count_;
  long most_blocks_;
  std::mutex mutex_;  // guards what follows while threads run
  std::condition_variable fetched_, wanted_;
  std::unordered_map<long, Planned> planned_;
  std::vector<long> sequence_;  ///< blocks by first use
  std::size_t next_ = 0;        ///< of sequence_, to be fetched
  long held_ = 0;               ///< blocks fetched or being fetched
  long demanded_ = -1;          ///< last place of sequence_ that a reader waits for
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace halograd
