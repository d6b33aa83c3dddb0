#pragma once

#include <string>

namespace halograd {

/// Of the library in use, "1.10.8".
std::string hdf5_version();

}  // namespace halograd
