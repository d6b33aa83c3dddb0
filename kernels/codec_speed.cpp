#include "kernels/codec_speed.hpp"

#include <chrono>

#include "kernels/chunks.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

constexpr double measured_seconds = 0.2;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

CodecSpeed measure_codec_speed(const ExecutionSpace& exec, const Codec& codec) {
  constexpr long length = 4L << 20;
  const Buffer<float> x("halograd::x", length), estimate("halograd::estimate", length);
  const Buffer<std::byte> code("halograd::code", codec.bytes(length));
  const Vector<float> values(x);
  CodecSpeed total;
  int runs = 0;
  for (; total.encode + total.decode < measured_seconds; ++runs) {
    // Other values in each run, or the differences would be what the code before has lost.
    for_each_chunk(
        exec, "halograd::random_values", length, KOKKOS_LAMBDA(const long begin, const long end) {
          for (long at = begin; at < end; ++at) {
            values(at) = random_uniform(static_cast<std::uint64_t>(runs), static_cast<std::uint64_t>(at)) - 0.5F;
          }
        });
    exec.fence();
    const auto begin = std::chrono::steady_clock::now();
    encode_difference(exec, codec, x, estimate, code);
    exec.fence();
    const double encoded = seconds_since(begin);
    add_decoded(exec, codec, code, estimate);
    exec.fence();
    if (runs == 0) continue;  // warms up
    total.encode += encoded;
    total.decode += seconds_since(begin) - encoded;
  }
  const double coded = static_cast<double>(runs - 1) * length;
  return {total.encode / coded, total.decode / coded};
}

}  // namespace halograd
