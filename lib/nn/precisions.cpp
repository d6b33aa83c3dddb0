#include "nn/precisions.hpp"

#include "kernels/conv.hpp"

namespace halograd {

const std::vector<PrecisionName>& precisions() {
  static const std::vector<PrecisionName> rows{
      {"fp32", "floats", Precision::full, "any device"},
      {"tf32", "floats rounded to 10 bits of fraction, on NVIDIA devices", Precision::tf32, "an NVIDIA device"},
      {"bf16", "floats rounded to 7 bits of fraction, on NVIDIA devices and AMD Instinct from MI100 on",
       Precision::bf16, "an NVIDIA device or an AMD Instinct from MI100 on"}};
  return rows;
}

Precision precision_named(const std::string& name) {
  return row_of(precisions(), name, "training.precision").precision;
}

}  // namespace halograd
