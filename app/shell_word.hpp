#pragma once

#include <string>

namespace halograd {

/// A word for a shell, in quotes where it needs them.
std::string quoted(const std::string& word);

}  // namespace halograd
