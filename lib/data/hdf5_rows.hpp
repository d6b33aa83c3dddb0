#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/blocks.hpp"
#include "data/throttle.hpp"
#include "hdf5/handles.hpp"
#include "hdf5/objects.hpp"

namespace halograd {

/// The rows of an HDF5 dataset, one an element of its first axis, in blocks of whole chunks of about 1 MiB.
///
/// Where the values lie in the file as they are in memory (contiguous or in chunks of whole rows, without filters) they
/// are read past HDF5: several threads at once, and without its lock, that a trainer needs for its own files. Others
/// (compressed, of another byte order) go through HDF5.
class Hdf5Rows final : public BlockSource {
 public:
  /// `dataset` (rows, ...) is read as `memory_type`. `megabytes_per_second`: see Throttle. `block_rows`: of another
  /// dataset that is read beside this one; 0: as is best for this one. `part`: of each row, along its axes; without
  /// any, rows are whole.
  Hdf5Rows(std::filesystem::path path, std::string name, Hdf5Dataset dataset, hid_t memory_type,
           double megabytes_per_second, long block_rows = 0, const Hdf5Box& part = {});
  ~Hdf5Rows() override;

  /// Its blocks are those of whole rows, so that all parts of a row lie in blocks of the same number.
  [[nodiscard]] BlockLayout layout() const override { return layout_; }
  /// Bytes of all rows, whole.
  [[nodiscard]] std::size_t whole_bytes() const { return whole_row_bytes_ * static_cast<std::size_t>(layout_.rows); }
  void read(long first, long count, std::uint8_t* out) const override;
  /// `part` of one row, along the axes of a row, whichever part its blocks are of. As read does.
  void read_part(long row, const Hdf5Box& part, std::uint8_t* out) const;
  [[nodiscard]] std::string identity() const override;
  [[nodiscard]] std::string name() const override;

 private:
  enum class Storage { contiguous, chunks, through_hdf5 };
  [[nodiscard]] Storage find_storage(hid_t memory_type);
  void read_through_hdf5(long first, long count, std::uint8_t* out) const;
  void read_piece(long first, long count, Hdf5Box part, std::uint8_t* out) const;
  [[nodiscard]] bool read_directly(long first, long count, std::uint8_t* out) const;
  [[nodiscard]] long chunk_address(long chunk) const;
  void read_at(long address, std::size_t bytes, long first, long count, std::uint8_t* out) const;

  std::filesystem::path path_;
  std::string name_;
  std::string where_;
  Hdf5Dataset dataset_;
  hid_t memory_type_;
  std::vector<hsize_t> extents_;
  Hdf5Box part_;  ///< of a row
  BlockLayout layout_;
  std::size_t whole_row_bytes_ = 0;
  long chunk_rows_ = 0;  // 0: not chunked
  Storage storage_ = Storage::through_hdf5;
  long address_ = -1;  // of contiguous values
  int file_ = -1;      // a descriptor of its own
  mutable Throttle throttle_;
};

}  // namespace halograd
