#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "convert/import_plan.hpp"

namespace halograd {

/// What an import did.
struct ImportResult {
  long images[2] = {0, 0};  ///< written, by Split
  int height = 0, width = 0, channels = 0;
  std::vector<std::string> class_names;
  std::vector<std::string> broken;  ///< messages of the files that were left out in this call
  long broken_before = 0;           ///< files that were left out before a resume
  long resumed = 0;                 ///< images that lay in the partial file already
  bool restarted = false;           ///< a partial file of another source was thrown away
};

/// Is called with how many of all images are done.
using Progress = std::function<void(long done, long all)>;

/// Writes the images of the sources into one HDF5 file (docs/file-formats.md) by way of `output`.partial, which a later
/// call of the same sources and options goes on with. Throws Error where the output exists and may not be overwritten,
/// where an image is broken and not to be skipped (all broken ones of the sources are listed), or differs in size from
/// the first without a size being asked for, and where `stop` was set; what is done is kept in the partial file.
ImportResult import_images(const ImportOptions& options, const Progress& progress, const std::atomic<bool>& stop);

}  // namespace halograd
