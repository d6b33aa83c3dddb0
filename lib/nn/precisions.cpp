#include "nn/precisions.hpp"

#include "kernels/conv.hpp"

namespace halograd {

const std::vector<PrecisionName>& precisions() {
  static const std::vector<PrecisionName> rows{
      {"fp32", "floats", Precision::full, "any device"},
      {"tf32", "floats rounded to 10 bits of fraction, on NVIDIA devices", Precision::tf32, "an NVIDIA device"},
      {"bf16",
       "floats rounded to 7 bits of fraction, also where activations are stored, on NVIDIA devices, AMD Instinct from "
       "MI100 on, Intel cores with AMX and AMD cores with AVX512_BF16",
       Precision::bf16,
       "an NVIDIA device, an AMD Instinct from MI100 on, Intel cores with AMX or AMD cores with AVX512_BF16"},
      {"auto", "bf16 where it can be, else fp32", Precision::automatic, "any device"}};
  return rows;
}

Precision precision_named(const std::string& name) {
  return row_of(precisions(), name, "training.precision").precision;
}

}  // namespace halograd
