#pragma once

#include <mutex>

namespace halograd {

/// HDF5 as distributions build it is not thread-safe, and the loader's thread reads while the trainer writes: whoever
/// calls HDF5 holds this.
inline std::unique_lock<std::recursive_mutex> hdf5_lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock<std::recursive_mutex>(mutex);
}

}  // namespace halograd
