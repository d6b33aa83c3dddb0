#include "comm/injector.hpp"

#include <chrono>
#include <thread>

#include "kernels/random.hpp"

namespace halograd {

void Injector::slow_down(int rank, double seconds) const {
  if (rank != config_.slow_rank) return;
  std::this_thread::sleep_for(std::chrono::duration<double>((config_.slow_factor - 1) * seconds));
}

bool Injector::drops(int writer, int reader, std::int64_t version) const {
  if (config_.drop_fraction == 0) return false;
  const std::uint64_t edge = (static_cast<std::uint64_t>(writer) << 32U) + static_cast<std::uint64_t>(reader);
  return random_uniform(random_bits(config_.seed, edge), static_cast<std::uint64_t>(version)) < config_.drop_fraction;
}

}  // namespace halograd
