#pragma once

#include <string>

namespace halograd {

/// A whole file. Throws Error where it is a folder or cannot be read.
std::string read_text(const std::string& path);

}  // namespace halograd
