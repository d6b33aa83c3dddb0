#pragma once

#include <string>

#include "kernels/shape.hpp"

namespace halograd {

/// What stands for a shape on the command line and in files.
inline constexpr const char* shape_form = "[[DEPTHx]HEIGHTx]WIDTHxCHANNELS";

/// "32x32x3"; volumes have a depth before, rows of values no height. Throws Error that begins with `where`.
Shape parse_shape(const std::string& text, const std::string& where);

}  // namespace halograd
