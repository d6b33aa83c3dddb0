#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "support/table.hpp"

namespace halograd {

/// The colours of an imported file: --colour.
struct ImageColours {
  const char* name;
  Fact<int> channels;  ///< 0: those of the first image
};
const std::vector<ImageColours>& image_colours();

/// What `halograd import` is asked for.
struct ImportOptions {
  std::vector<std::string> sources;
  std::string output;
  int height = 0, width = 0;    ///< images are resized to this; 0: refused where they differ from the first
  std::string colour = "auto";  ///< a row of image_colours()
  double test_fraction = -1;    ///< of each class, where the sources have no train and test folders; < 0: 0.1
  std::uint64_t seed = 1;       ///< which images are for testing, and the order of the training images
  bool skip_broken = false;
  bool overwrite = false;
  int threads = 0;  ///< that decode; 0: this machine's cores
};

/// One image to come: a file, or one of a set in another format.
struct ImportItem {
  std::filesystem::path path;
  long index = 0;  ///< in the other set
  int label = 0;
};

/// Which images go where, in their order in the file; a function of the sources and options alone.
struct ImportPlan {
  std::vector<std::string> class_names;
  std::vector<ImportItem> items[2];  ///< by Split
  DataConfig other;                  ///< its path is empty where the items are files
  std::string identity;              ///< differs whenever the file written would
};

/// Looks through the sources. Throws Error where one is missing, holds no images, or a class holds none.
ImportPlan plan_import(const ImportOptions& options);

}  // namespace halograd
