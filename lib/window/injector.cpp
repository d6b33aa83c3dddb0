#include "window/injector.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/random.hpp"

namespace halograd {

void Injector::slow_down(int rank, double seconds) const {
  double whole = std::max(seconds, 1e-6 * config_.compute_us);
  if (rank == config_.slow_rank) whole *= config_.slow_factor;
  if (whole > seconds) std::this_thread::sleep_for(std::chrono::duration<double>(whole - seconds));
}

bool Injector::drops(int writer, int reader, std::int64_t version) const {
  if (config_.drop_fraction == 0) return false;
  const std::uint64_t edge = (static_cast<std::uint64_t>(writer) << 32U) + static_cast<std::uint64_t>(reader);
  return random_uniform(random_bits(config_.seed, edge), static_cast<std::uint64_t>(version)) < config_.drop_fraction;
}

}  // namespace halograd
