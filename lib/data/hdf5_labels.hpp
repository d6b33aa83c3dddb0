#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/dataset.hpp"
#include "hdf5/handles.hpp"

namespace halograd {

/// /train/labels or /test/labels of an HDF5 set: classes, 0..classes-1, or real numbers.
struct Hdf5Labels {
  bool present = true;               ///< false: the set has none
  bool a_pixel = false;              ///< read as they are needed; else in `values` or `targets`
  int classes = 0;                   ///< by the attribute, else of the training labels; 0: real numbers
  int target_values = 0;             ///< real numbers of a label; 0: classes
  std::vector<std::int32_t> values;  ///< (N)
  std::vector<float> targets;        ///< (N, target_values)
  [[nodiscard]] std::size_t size() const {
    return target_values > 0 ? targets.size() / static_cast<std::size_t>(target_values) : values.size();
  }
};

/// In a file without /train, /test has the classes of its own attribute, or those up to its largest label. Throws
/// Error naming the dataset, what was found and what was expected.
Hdf5Labels read_labels(const Hdf5File& file, Split split, const std::filesystem::path& path);

}  // namespace halograd
