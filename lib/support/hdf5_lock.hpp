#pragma once

#include <mutex>

namespace halograd {

/// Held around every call of HDF5: the library is as a rule built without thread safety, and the loader's thread
/// reads images while the main thread writes checkpoints and metrics. Recursive, so that the destructor of a handle may
/// take it inside a function that holds it.
inline std::unique_lock<std::recursive_mutex> hdf5_lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock<std::recursive_mutex>(mutex);
}

}  // namespace halograd
