#pragma once

#include <string>

#include "kernels/conv.hpp"

namespace halograd {

/// What training.precision names: "fp32", "tf32" or "bf16".
inline Precision precision_named(const std::string& name) {
  if (name == "tf32") return Precision::tf32;
  return name == "bf16" ? Precision::bf16 : Precision::full;
}

}  // namespace halograd
