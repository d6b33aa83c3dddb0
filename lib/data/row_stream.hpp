#pragma once

#include <memory>
#include <span>

#include "config/data_config.hpp"
#include "data/block_cache.hpp"
#include "data/hdf5_rows.hpp"
#include "data/read_ahead.hpp"

namespace halograd {

/// Rows of a dataset as they are asked for: from blocks that were read ahead, from a cache, or one by one.
class RowStream {
 public:
  /// `memory_bytes`: what the cache may take. `all`: every block may be held at once.
  RowStream(std::unique_ptr<Hdf5Rows> rows, const DataConfig& config, std::size_t memory_bytes, bool all, Warn warn)
      : rows_(std::move(rows)),
        layout_(rows_->layout()),
        cache_(*rows_, memory_bytes, config.cache_folder, std::move(warn)),
        read_ahead_(cache_, config.readers, all ? std::max(ahead(config), layout_.blocks()) : ahead(config)) {}

  void expect(std::span<const long> order) { read_ahead_.start(order); }
  /// `part` of a row, past the blocks and the cache.
  void read_part(long row, const Hdf5Box& part, std::uint8_t* out) const { rows_->read_part(row, part, out); }

  /// One reader's place: rows in ascending order share the blocks they lie in.
  class Cursor {
   public:
    explicit Cursor(RowStream& stream) : stream_(stream) {}
    /// The bytes of a row, as they are stored, until the next call. Throws Error on a broken file.
    const std::uint8_t* row(long index) {
      const BlockLayout& layout = stream_.layout_;
      if (Block ahead = stream_.read_ahead_.take(index)) {
        block_ = std::move(ahead);
        current_ = layout.block_of(index);
      } else if (layout.block_of(index) != current_) {
        current_ = stream_.cache_.keeps(layout.block_of(index)) ? layout.block_of(index) : -1;
        if (current_ >= 0) block_ = stream_.cache_.get(current_);
      }
      if (current_ < 0) {  // far from the others and not to be kept: the row alone
        row_.resize(layout.row_bytes);
        stream_.rows_->read(index, 1, row_.data());
        return row_.data();
      }
      return block_->data() + static_cast<std::size_t>(index - layout.rows_of(current_).begin) * layout.row_bytes;
    }

   private:
    RowStream& stream_;
    std::vector<std::uint8_t> row_;
    Block block_;
    long current_ = -1;
  };

 private:
  /// Blocks: what is shuffled together now, and what will be after it; a share may begin and end inside a block. Of
  /// images that are blocks by themselves, as many bytes as that is of small ones, but one for each reader.
  [[nodiscard]] long ahead(const DataConfig& config) const {
    const long windows = 2L * (config.shuffle_window + 2L);
    if (layout_.block_rows > 1) return windows;
    const auto large = std::max<std::size_t>(1, layout_.row_bytes / block_bytes);
    return std::max(config.readers + 1L, windows / static_cast<long>(large));
  }

  std::unique_ptr<Hdf5Rows> rows_;
  BlockLayout layout_;
  BlockCache cache_;
  ReadAhead read_ahead_;
};

}  // namespace halograd
