#include "nn/initialise.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/random.hpp"

namespace halograd {

std::uint64_t tensor_key(std::uint64_t seed, const std::string& layer, const std::string& name) {
  std::uint64_t key = mix_bits(seed);
  for (const char c : layer + "/" + name) key = random_bits(key, static_cast<unsigned char>(c));
  return key;
}

void initialise(const Initial& initial, std::uint64_t key, float* values, std::size_t count) {
  if (initial.fan_in == 0) {
    std::fill(values, values + count, static_cast<float>(initial.constant));
    return;
  }
  // Box-Muller; the standard library's distributions differ from one library to another.
  const double deviation = std::sqrt(2.0 / static_cast<double>(initial.fan_in));
  constexpr double two_pi = 6.283185307179586;
  for (std::size_t i = 0; i < count; ++i) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random_uniform(key, 2 * i)));
    values[i] = static_cast<float>(deviation * radius * std::cos(two_pi * random_uniform(key, 2 * i + 1)));
  }
}

}  // namespace halograd
