#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace halograd {

/// A layer's tensor and where it lies in a flat buffer; /mean/<layer>/<name> of a checkpoint.
struct NamedTensor {
  std::string layer;          ///< "conv1"
  std::string name;           ///< "weight"
  std::vector<long> extents;  ///< for example (R, S, C, K)
  std::size_t offset = 0;     ///< into the flat buffer
  [[nodiscard]] std::size_t size() const {
    std::size_t product = 1;
    for (const long extent : extents) product *= static_cast<std::size_t>(extent);
    return product;
  }
};

}  // namespace halograd
