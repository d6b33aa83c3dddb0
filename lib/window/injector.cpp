#include "window/injector.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "kernels/random.hpp"

namespace halograd {

void Injector::slow_down(int rank, double seconds) const {
  double whole = std::max(seconds, 1e-6 * config_.compute_us);
  if (rank == config_.slow_rank) whole *= config_.slow_factor;
  if (whole > seconds) std::this_thread::sleep_for(std::chrono::duration<double>(whole - seconds));
}

std::int64_t Injector::leaves(std::int64_t now, std::int64_t bytes) {
  all_left_ = std::max(all_left_, now);
  // 1 MB per second is a byte per 1000 ns.
  if (config_.bandwidth_mb > 0) all_left_ += std::llround(1000 * static_cast<double>(bytes) / config_.bandwidth_mb);
  return all_left_;
}

std::int64_t Injector::arrives(std::int64_t now, std::int64_t bytes) {
  return leaves(now, bytes) + std::llround(1000 * config_.latency_us);
}

std::int64_t Injector::ring_arrives(std::int64_t now, int ranks, std::int64_t bytes) {
  return leaves(now, bytes) + std::llround(2 * (ranks - 1) * 1000 * config_.latency_us);
}

bool Injector::drops(int writer, int reader, std::int64_t version) const {
  if (config_.drop_fraction == 0) return false;
  const std::uint64_t edge = (static_cast<std::uint64_t>(writer) << 32U) + static_cast<std::uint64_t>(reader);
  return random_uniform(random_bits(config_.seed, edge), static_cast<std::uint64_t>(version)) < config_.drop_fraction;
}

}  // namespace halograd
