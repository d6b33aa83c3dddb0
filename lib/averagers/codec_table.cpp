#include "averagers/codec_table.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/codec.hpp"

namespace halograd {
namespace {

template <CodecKind kind>
Codec codec_of(const AveragerConfig& averager) {
  if (kind != CodecKind::top_k) return {kind};
  const auto kept = static_cast<int>(std::lround(averager.kept_share * codec_block));
  return {kind, std::clamp(kept, 1, static_cast<int>(codec_block))};
}

template <CodecKind kind>
std::size_t bytes_of(const AveragerConfig& averager, std::size_t length) {
  return codec_of<kind>(averager).bytes(length);
}

std::size_t bytes_of_floats(const AveragerConfig& /*averager*/, std::size_t length) {
  return length * sizeof(float);
}

double whole_way(const AveragerConfig& /*averager*/) {
  return 1;
}

double twice_kept_share(const AveragerConfig& averager) {
  return std::min(1.0, 2 * averager.kept_share);
}

}  // namespace

const std::vector<CodecRow>& codecs() {
  static const std::vector<CodecRow> rows{
      {"fp32", "floats as they are", bytes_of_floats, nullptr, true, whole_way},
      {"bf16", "the upper halves of floats", bytes_of<CodecKind::bf16>, codec_of<CodecKind::bf16>, true, whole_way},
      {"int8", "a byte per value and a scale per 256 values", bytes_of<CodecKind::int8>, codec_of<CodecKind::int8>,
       false, whole_way},
      {"top_k", "the largest values, kept_share of them", bytes_of<CodecKind::top_k>, codec_of<CodecKind::top_k>, false,
       twice_kept_share},
  };
  return rows;
}

const CodecRow& codec_row_of(const AveragerConfig& averager) {
  return row_of(codecs(), averager.codec, "averager.codec");
}

bool is_coded(const AveragerConfig& averager) {
  return *codec_row_of(averager).codec != nullptr;
}

double consensus_step_of(const AveragerConfig& averager) {
  if (!is_coded(averager)) return 1;
  return averager.consensus_step > 0 ? averager.consensus_step : codec_row_of(averager).consensus_step(averager);
}

}  // namespace halograd
