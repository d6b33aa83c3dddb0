#pragma once

#include <string>
#include <string_view>

namespace halograd {

/// A whole file. Throws Error where it is a folder or cannot be read.
std::string read_text(const std::string& path);

/// Writes a whole file. Throws Error where it cannot be written; what has come to it then stays.
void write_text(const std::string& path, std::string_view text);

}  // namespace halograd
