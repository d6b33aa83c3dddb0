#pragma once

#include <cstdint>
#include <string>

namespace halograd {

/// Which model has made a file of which data: attributes of its root.
struct ModelOrigin {
  std::string checkpoint;  ///< path
  std::string replica;     ///< "mean" or a number
  std::string network;
  std::int64_t step = 0, epoch = 0;
  std::string data;      ///< path
  std::string versions;  ///< of halograd, Kokkos, MPI, HDF5
};

}  // namespace halograd
