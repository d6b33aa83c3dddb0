#pragma once

#include <string>

#include "kernels/shape.hpp"

namespace halograd {

/// What stands for a shape on the command line and in files.
inline constexpr const char* shape_form = "[[DEPTHx]HEIGHTx]WIDTHxCHANNELS";

/// "32x32x3"; volumes have a depth before, rows of values no height. Throws Error that begins with `where`.
Shape parse_shape(const std::string& text, const std::string& where);

/// "64x48", height and width of an image file, as a shape without channels. Throws Error that begins with --size.
Shape parse_size(const std::string& text);

}  // namespace halograd
