#pragma once

#include <string>

namespace halograd {

/// The root attribute `format` of an HDF5 file. Throws Error where it has none, or is no HDF5 file.
std::string read_format(const std::string& path);

}  // namespace halograd
