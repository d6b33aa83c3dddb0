#pragma once

#include <cstddef>
#include <vector>

#include "config/comm_config.hpp"
#include "support/table.hpp"

/// How weights and gradients can travel (averager.codec).
namespace halograd {

struct Codec;

struct CodecRow {
  const char* name;
  Fact<const char*> meaning;
  Fact<std::size_t (*)(const AveragerConfig&, std::size_t)> bytes;  ///< of `length` values on their way
  /// What codes the differences that are sent; null: the weights travel as they are.
  Fact<Codec (*)(const AveragerConfig&)> codec;
  Fact<bool> of_sums;  ///< parts of a sum over all ranks can travel so
  /// Share of the way to the neighbours' estimates that an exchange goes, unless averager.consensus_step says.
  Fact<double (*)(const AveragerConfig&)> consensus_step;
};

const std::vector<CodecRow>& codecs();
/// Throws Error for an unknown codec.
const CodecRow& codec_row_of(const AveragerConfig& averager);
/// Whether something else is sent than the floats.
bool is_coded(const AveragerConfig& averager);
/// Share of the way to the neighbours that an exchange goes; 1 without a codec.
double consensus_step_of(const AveragerConfig& averager);

}  // namespace halograd
