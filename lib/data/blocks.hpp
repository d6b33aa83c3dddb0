#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/sharding.hpp"

/// Rows of equal length (images) in slow storage, read in blocks: what the cache and the read-ahead work on.
namespace halograd {

/// About as much is a block, unless a row has more.
constexpr std::size_t block_bytes = std::size_t{1} << 20U;

/// Rows first to last of a block: block b holds rows b*block_rows to (b+1)*block_rows, the last one what is left.
struct BlockLayout {
  long rows = 0;
  long block_rows = 1;
  std::size_t row_bytes = 0;
  [[nodiscard]] long blocks() const { return (rows + block_rows - 1) / block_rows; }
  [[nodiscard]] long block_of(long row) const { return row / block_rows; }
  [[nodiscard]] Range rows_of(long block) const {
    return {block * block_rows, std::min(rows, (block + 1) * block_rows)};
  }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(rows) * row_bytes; }
};

/// The bytes of a block's rows, as they are stored.
using Block = std::shared_ptr<const std::vector<std::uint8_t>>;

/// Where blocks come from in the end.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  [[nodiscard]] virtual BlockLayout layout() const = 0;
  /// Rows first to first+count-1 into out. Safe to call from several threads. Throws Error on a broken file.
  virtual void read(long first, long count, std::uint8_t* out) const = 0;
  /// Differs whenever the bytes may: path, size and time of the file, name and layout of the rows.
  [[nodiscard]] virtual std::string identity() const = 0;
  /// The part of the identity that stays when the file is replaced by a newer one.
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace halograd
