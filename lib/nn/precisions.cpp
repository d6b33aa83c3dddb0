#include "nn/precisions.hpp"

#include "kernels/conv.hpp"

namespace halograd {

const std::vector<PrecisionName>& precisions() {
  static const std::vector<PrecisionName> rows{
      {"fp32", Precision::full, "any device"},
      {"tf32", Precision::tf32, "an NVIDIA device"},
      {"bf16", Precision::bf16, "an NVIDIA device or an AMD Instinct from MI100 on"}};
  return rows;
}

Precision precision_named(const std::string& name) {
  return row_of(precisions(), name, "training.precision").precision;
}

}  // namespace halograd
