#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/import_plan.hpp"
#include "hdf5/handles.hpp"

namespace halograd {

/// Extents of every image of the file.
struct ImportShape {
  int height = 0, width = 0, channels = 0;
  bool operator==(const ImportShape&) const = default;
  [[nodiscard]] std::size_t values() const { return static_cast<std::size_t>(height) * width * channels; }
};

/// The HDF5 file while it is being written. All its metadata are made and flushed first, and room for every image with
/// them; after that only values change. So a process that is killed leaves a file that opens, and `state` tells how far
/// it came.
class ImportFile {
 public:
  /// How far the file is, by Split.
  struct State {
    std::int64_t items[2] = {0, 0};   ///< of the plan, looked at
    std::int64_t images[2] = {0, 0};  ///< written
  };

  /// Starts a file, in the place of any that is there.
  static ImportFile create(const std::string& path, const ImportPlan& plan, const ImportShape& shape);
  /// Goes on with one. Throws Error where it is not a partial file of this plan.
  static ImportFile resume(const std::string& path, const ImportPlan& plan);

  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] const ImportShape& shape() const { return shape_; }

  /// Appends images (labels.size(), H, W, C) to a split and notes the number of items of the plan that are looked at.
  /// On the disk when this returns, as far as the process's own death goes.
  void append(int split, const std::vector<std::uint8_t>& images, const std::vector<std::int32_t>& labels,
              std::int64_t items_done);
  /// Cuts off the room of images that were left out, and what only a partial file has.
  void finish();

 private:
  ImportFile(std::string path, Hdf5File file);
  void write_rows(const char* name, int split, hid_t type, const std::vector<hsize_t>& count, const void* values);

  std::string path_;
  Hdf5File file_;
  ImportShape shape_;
  State state_;
};

}  // namespace halograd
