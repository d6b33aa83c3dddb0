#pragma once

#include <string>
#include <vector>

#include "support/table.hpp"

namespace halograd {

enum class Precision;  // kernels/conv.hpp

/// What training.precision may be.
struct PrecisionName {
  const char* name;
  Fact<const char*> meaning;
  Fact<Precision> precision;
  Fact<const char*> needs;  ///< devices that compute so
};

const std::vector<PrecisionName>& precisions();

/// Throws Error where there is none of that name.
Precision precision_named(const std::string& name);

}  // namespace halograd
