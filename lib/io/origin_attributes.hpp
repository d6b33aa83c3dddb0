#pragma once

#include <cstdint>
#include <string>

#include "hdf5/handles.hpp"
#include "io/model_origin.hpp"

namespace halograd {

/// Writes the origin to the root, after `format` and `format_version`. Throws Error.
void write_origin(const Hdf5File& file, const char* format, std::int64_t version, const ModelOrigin& origin,
                  const std::string& path);

}  // namespace halograd
