#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/blocks.hpp"

namespace halograd {

/// Blocks as files in a folder on the node's own disk, for all processes of the node and for runs to come.
///
/// A set has a subfolder of its own, named after the source, with a file `source.txt` that says what the blocks are of.
/// Where that is another identity (the file was replaced, another block size) the blocks are thrown away; where the
/// subfolder holds something else it is left alone and not used. Each block has a checksum: one that is cut short or
/// damaged counts as missing. A folder that is missing, full (95 % of the disk) or not writable gives one warning, and
/// the run goes on without.
class DiskCache {
 public:
  DiskCache(const std::filesystem::path& folder, const std::string& name, const std::string& identity, Warn warn);

  /// Whether a block is there, or would be kept if it were written.
  [[nodiscard]] bool keeps(long block) const;
  /// False where it is not there, or not whole. Safe to call from several threads and processes.
  [[nodiscard]] bool read(long block, std::vector<std::uint8_t>& bytes) const;
  /// Written beside and renamed, so that other processes see all of it or nothing.
  void write(long block, const std::vector<std::uint8_t>& bytes) const;

 private:
  void claim(const std::string& identity);
  [[nodiscard]] std::filesystem::path file_of(long block) const;
  void stop(std::atomic<bool>& use, const std::string& why) const;

  std::filesystem::path folder_;
  Warn warn_;
  mutable std::atomic<bool> readable_ = true, writable_ = true;
  mutable std::atomic<long> written_ = 0;
};

}  // namespace halograd
