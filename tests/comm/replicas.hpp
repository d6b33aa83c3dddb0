#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "comm/averager.hpp"
#include "kernels/random.hpp"
#include "support/wait.hpp"
#include "tests/comm/ranks.hpp"

/// Replicas that averagers are tried on: quadratics in place of networks.
namespace halograd {

/// One vector on the device with a copy on the host to fill and to read.
class Values {
 public:
  explicit Values(const std::vector<float>& values) : device_("values", values.size()) { set(values); }
  void set(const std::vector<float>& values) {
    Kokkos::deep_copy(device_, HostVector<const float>(values.data(), values.size()));
  }
  [[nodiscard]] std::vector<float> get() const {
    std::vector<float> values(device_.extent(0));
    Kokkos::deep_copy(HostVector<float>(values.data(), values.size()), device_);
    return values;
  }
  [[nodiscard]] const Buffer<float>& device() const { return device_; }

 private:
  Buffer<float> device_;
};

/// Where rank `rank` starts, in -1 .. 1.
inline std::vector<float> start_of(int rank, std::size_t length) {
  std::vector<float> values(length);
  for (std::size_t i = 0; i < length; ++i) values[i] = 2 * random_uniform(static_cast<std::uint64_t>(rank), i) - 1;
  return values;
}

/// The gradient at x of rank `rank`'s quadratic 1/2 c (x - t)^2, c between 0.5 and 1.5 and t the rank's own.
template <class Real>
Real gradient_at(Real x, int rank, std::size_t i) {
  const auto key = static_cast<std::uint64_t>(rank);
  return (Real(0.5) + Real(random_uniform(key + 1000, i))) * (x - Real(random_uniform(key + 2000, i)));
}

inline constexpr float rate = 0.125F;

/// Steps of plain gradient descent as the Trainer makes them: the gradient is taken at the weights before the exchange.
inline void train(Averager& averager, Values& weights, std::int64_t first_step, std::int64_t last_step, double share) {
  const ExecutionSpace exec;
  const std::size_t length = weights.get().size();
  Values gradient{std::vector<float>(length)};
  for (std::int64_t step = first_step; step < last_step; ++step) {
    averager.before_gradient(exec, step, weights.device());
    std::vector<float> x = weights.get(), g(length);
    for (std::size_t i = 0; i < length; ++i) g[i] = gradient_at(x[i], this_rank(), i);
    gradient.set(g);
    // Ranks drift apart in time, other in every run.
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::chrono::steady_clock::now().time_since_epoch().count() % 200));
    averager.before_update(exec, step, weights.device(), gradient.device(), share);
    exec.fence();
    x = weights.get();
    g = gradient.get();
    for (std::size_t i = 0; i < length; ++i) x[i] -= rate * g[i];
    weights.set(x);
    averager.after_update(exec, step, weights.device());
    exec.fence();
  }
}

/// The number of ranks whose vectors differ; the same on all ranks.
inline int ranks_that_differ(const std::vector<float>& a, const std::vector<float>& b) {
  double differ = a == b ? 0 : 1;
  sum_over_ranks(MPI_COMM_WORLD, &differ, 1);
  return static_cast<int>(differ);
}

/// Distance of the replicas from their mean, and that mean's entries summed, over all ranks.
struct Consensus {
  double error = 0, mean = 0;
};

inline Consensus consensus_of(const std::vector<float>& x) {
  std::vector<double> mean(x.begin(), x.end());
  sum_over_ranks(MPI_COMM_WORLD, mean.data(), static_cast<int>(mean.size()));
  Consensus consensus;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean[i] /= all_ranks();
    consensus.mean += mean[i];
    consensus.error += (x[i] - mean[i]) * (x[i] - mean[i]);
  }
  sum_over_ranks(MPI_COMM_WORLD, &consensus.error, 1);
  consensus.error = std::sqrt(consensus.error);
  return consensus;
}

}  // namespace halograd
