#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace halograd {

/// What lossy codecs make of blocks of codec_block values, the last one shorter.
constexpr long codec_block = 256;

enum class CodecKind { bf16, int8, top_k };

/// A lossy code for differences of weights.
/// bf16: the upper half of the float, rounded to nearest even. 2 bytes a value.
/// int8: per block a float scale = largest |value| / 127, then a signed byte a value = value / scale, rounded to
/// nearest even. 1 byte a value and 4 a block.
/// top_k: per block the `kept` values that are largest in size (of equal ones the first), as floats, then their places
/// in the block, one byte each; zeros elsewhere. 5 `kept` bytes per block.
struct Codec {
  CodecKind kind = CodecKind::bf16;
  int kept = 0;  ///< top_k: values kept per block, at least 1; a shorter last block keeps all that it has, if fewer
  /// Bytes of a block's code; the last block takes as many as the others.
  [[nodiscard]] KOKKOS_FUNCTION std::size_t block_bytes() const {
    if (kind == CodecKind::bf16) return 2 * codec_block;
    return kind == CodecKind::int8 ? codec_block + sizeof(float) : 5 * static_cast<std::size_t>(kept);
  }
  [[nodiscard]] std::size_t bytes(std::size_t length) const {
    return (length + codec_block - 1) / codec_block * block_bytes();
  }
};

/// code = Q(x - estimate), (codec.bytes(n)); estimate += what the code stands for: what is lost stays in the next
/// difference.
void encode_difference(const ExecutionSpace& exec, const Codec& codec, Vector<const float> x, Vector<float> estimate,
                       Vector<std::byte> code);

/// estimate += what the code stands for: the same bits as with encode_difference.
void add_decoded(const ExecutionSpace& exec, const Codec& codec, Vector<const std::byte> code, Vector<float> estimate);

}  // namespace halograd
