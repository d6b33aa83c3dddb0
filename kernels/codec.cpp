#include "kernels/codec.hpp"

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"
#include "kernels/float_bits.hpp"

namespace halograd {
namespace {

// Codes lie at any address: their numbers are put together from bytes.
template <class Bits>
KOKKOS_INLINE_FUNCTION void put_bits(std::byte* to, Bits bits) {
  for (unsigned i = 0; i < sizeof(Bits); ++i) to[i] = static_cast<std::byte>(bits >> (8 * i));
}
template <class Bits>
KOKKOS_INLINE_FUNCTION Bits get_bits(const std::byte* from) {
  Bits bits = 0;
  for (unsigned i = 0; i < sizeof(Bits); ++i) {
    bits = static_cast<Bits>(bits | static_cast<Bits>(static_cast<Bits>(from[i]) << (8 * i)));
  }
  return bits;
}
/// In the order of the values' magnitudes.
KOKKOS_INLINE_FUNCTION std::uint32_t magnitude_bits(float value) {
  return bits_of(value) & 0x7FFFFFFFU;
}

/// What is common to both ends: adds a block's code to the estimate.
KOKKOS_INLINE_FUNCTION void add_block(const Codec& codec, const std::byte* code, long count, float* estimate) {
  if (codec.kind == CodecKind::bf16) {
    for (long i = 0; i < count; ++i) {
      estimate[i] += float_of_bf16(get_bits<std::uint16_t>(code + 2 * i));
    }
  } else if (codec.kind == CodecKind::int8) {
    const float scale = float_of(get_bits<std::uint32_t>(code));
    const std::byte* const steps = code + sizeof(float);
    for (long i = 0; i < count; ++i) {
      // Rounded before it is added, or the two ends could differ by a fused multiply-add.
      const auto value = static_cast<float>(static_cast<double>(static_cast<std::int8_t>(steps[i])) * scale);
      estimate[i] += value;
    }
  } else {
    const int kept = count < codec.kept ? static_cast<int>(count) : codec.kept;
    const std::byte* const places = code + sizeof(float) * static_cast<std::size_t>(codec.kept);
    for (int j = 0; j < kept; ++j) {
      estimate[static_cast<int>(places[j])] += float_of(get_bits<std::uint32_t>(code + 4 * j));
    }
  }
}

/// Rounded to nearest, ties to even, for |value| below 2^22; the same on all devices.
KOKKOS_INLINE_FUNCTION int nearest(float value) {
  constexpr float shift = 12582912.0F;  // 1.5 * 2^23: the sum has no bits below 1
  return static_cast<int>(bits_of(value + shift)) - static_cast<int>(bits_of(shift));
}

// What is encoded are codec_block differences, zeros behind those that there are.

KOKKOS_INLINE_FUNCTION void encode_int8(const float* difference, std::byte* code) {
  std::uint32_t largest = 0;
  for (long i = 0; i < codec_block; ++i) {
    largest = magnitude_bits(difference[i]) > largest ? magnitude_bits(difference[i]) : largest;
  }
  const float scale = float_of(largest) / 127.0F;
  put_bits(code, bits_of(scale));
  const float divisor = scale > 0 ? scale : 1.0F;  // zeros, or a denormal largest
  std::byte* const steps = code + sizeof(float);
  for (long i = 0; i < codec_block; ++i) {
    int step = nearest(difference[i] / divisor);
    step = step > 127 ? 127 : (step < -127 ? -127 : step);  // a scale that is denormal is no 127th
    steps[i] = static_cast<std::byte>(step);
  }
}

/// The values of largest magnitude, the first of equal ones, in the order of their places.
KOKKOS_INLINE_FUNCTION void encode_top_k(const Codec& codec, const float* difference, long count, std::byte* code) {
  std::uint32_t sizes[codec_block];
  for (long i = 0; i < codec_block; ++i) sizes[i] = magnitude_bits(difference[i]);
  const int kept = count < codec.kept ? static_cast<int>(count) : codec.kept;
  // Bit by bit, the largest threshold that `kept` of them reach.
  std::uint32_t threshold = 0;
  int reached = codec_block;
  for (std::uint32_t bit = 1U << 30U; bit != 0 && reached > kept; bit >>= 1U) {
    int over = 0;
    for (const std::uint32_t size : sizes) over += size >= (threshold | bit) ? 1 : 0;
    if (over < kept) continue;
    threshold |= bit;
    reached = over;
  }
  int equal = kept;  // those of the threshold's size that find room
  for (const std::uint32_t size : sizes) equal -= size > threshold ? 1 : 0;
  std::byte* const places = code + sizeof(float) * static_cast<std::size_t>(codec.kept);
  int taken = 0;
  for (long i = 0; taken < kept; ++i) {
    if (sizes[i] < threshold || (sizes[i] == threshold && equal-- <= 0)) continue;
    put_bits(code + 4 * taken, bits_of(difference[i]));
    places[taken++] = static_cast<std::byte>(i);
  }
  for (; taken < codec.kept; ++taken) {
    put_bits(code + 4 * taken, 0U);
    places[taken] = std::byte{0};
  }
}

struct Encode {
  Codec codec;
  const float* x;
  float* estimate;
  std::byte* code;
  long length;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const long begin = item * codec_block;
    const long count = length - begin < codec_block ? length - begin : codec_block;
    std::byte* const to = code + static_cast<std::size_t>(item) * codec.block_bytes();
    float difference[codec_block];
    for (long i = 0; i < count; ++i) difference[i] = x[begin + i] - estimate[begin + i];
    for (long i = count; i < codec_block; ++i) difference[i] = 0;
    if (codec.kind == CodecKind::bf16) {
      for (long i = 0; i < codec_block; ++i) put_bits(to + 2 * i, bf16_of(difference[i]));
    } else if (codec.kind == CodecKind::int8) {
      encode_int8(difference, to);
    } else {
      encode_top_k(codec, difference, count, to);
    }
    add_block(codec, to, count, estimate + begin);
  }
};

struct Decode {
  Codec codec;
  const std::byte* code;
  float* estimate;
  long length;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const long begin = item * codec_block;
    const long count = length - begin < codec_block ? length - begin : codec_block;
    add_block(codec, code + static_cast<std::size_t>(item) * codec.block_bytes(), count, estimate + begin);
  }
};

FlatRange blocks_of(const ExecutionSpace& exec, const Codec& codec, std::size_t length, std::size_t code,
                    std::size_t estimate) {
  HALOGRAD_REQUIRE(codec.kind != CodecKind::top_k || (codec.kept > 0 && codec.kept <= codec_block),
                   "codec: ", codec.kept, " values of a block of ", codec_block);
  HALOGRAD_REQUIRE(code == codec.bytes(length) && estimate == length, "codec: ", code, " bytes for ", length,
                   " values and ", estimate, " estimates");
  return {exec, 0, (static_cast<long>(length) + codec_block - 1) / codec_block};
}

}  // namespace

void encode_difference(const ExecutionSpace& exec, const Codec& codec, Vector<const float> x, Vector<float> estimate,
                       Vector<std::byte> code) {
  Kokkos::parallel_for(label("halograd::encode_difference"),
                       blocks_of(exec, codec, x.extent(0), code.extent(0), estimate.extent(0)),
                       Encode{codec, x.data(), estimate.data(), code.data(), static_cast<long>(x.extent(0))});
}

void add_decoded(const ExecutionSpace& exec, const Codec& codec, Vector<const std::byte> code, Vector<float> estimate) {
  Kokkos::parallel_for(label("halograd::add_decoded"),
                       blocks_of(exec, codec, estimate.extent(0), code.extent(0), estimate.extent(0)),
                       Decode{codec, code.data(), estimate.data(), static_cast<long>(estimate.extent(0))});
}

}  // namespace halograd
