#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "averagers/averager.hpp"
#include "kernels/random.hpp"
#include "mpi/communicator.hpp"
#include "tests/kernels/differences.hpp"
#include "tests/mpi/ranks.hpp"

/// Replicas of a problem whose steps can be followed in double by one process, for tests of averagers.
namespace halograd {

inline Topology topology_of(const std::string& kind) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, all_ranks());
}

/// One vector on the device with a copy on the host to fill and to read.
class Values {
 public:
  explicit Values(const std::vector<float>& values) : device_("values", values.size()) { set(values); }
  void set(const std::vector<float>& values) const {
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

/// Gradient descent, with heavy-ball momentum where `momentum` is not 0.
struct Descent {
  explicit Descent(std::size_t length, float momentum_ = 0)
      : momentum(momentum_), velocity(std::vector<float>(length)) {}
  /// Steps the weights from number `begin` on.
  void step(Vector<float> weights, Vector<const float> gradient, std::size_t begin = 0) const {
    const std::size_t length = weights.extent(0);
    std::vector<float> x(length), g(length), v = velocity.get();
    Kokkos::deep_copy(HostVector<float>(x.data(), length), weights);
    Kokkos::deep_copy(HostVector<float>(g.data(), length), gradient);
    for (std::size_t i = 0; i < length; ++i) {
      v[begin + i] = momentum * v[begin + i] + g[i];
      x[i] -= rate * v[begin + i];
    }
    velocity.set(v);
    Kokkos::deep_copy(weights, HostVector<const float>(x.data(), length));
  }
  float momentum;
  Values velocity;
};

/// Steps of gradient descent as the Trainer makes them: the gradient is taken at the weights before the exchange.
inline void train(Averager& averager, Values& weights, std::int64_t first_step, std::int64_t last_step, double share,
                  const Descent& descent) {
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
    const auto optimize = [&](std::size_t begin, std::size_t count) {
      exec.fence();
      descent.step(slice(weights.device(), begin, count), slice(gradient.device(), begin, count), begin);
    };
    averager.update(exec, step, weights.device(), gradient.device(), share, optimize);
    exec.fence();
  }
}
inline void train(Averager& averager, Values& weights, std::int64_t first_step, std::int64_t last_step, double share) {
  train(averager, weights, first_step, last_step, share, Descent(weights.device().extent(0)));
}

/// The same of all ranks in one process, in double: rows are ranks.
struct Simulation {
  explicit Simulation(std::size_t length_, double momentum_ = 0)
      : ranks(all_ranks()), length(length_), momentum(momentum_), v(ranks * length), g(ranks * length) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float> start = start_of(rank, length);
      x.insert(x.end(), start.begin(), start.end());
    }
  }
  void take_gradients() {
    for (std::size_t i = 0; i < x.size(); ++i) g[i] = gradient_at(x[i], static_cast<int>(i / length), i % length);
  }
  void update() { update(g); }
  void update(const std::vector<double>& gradients) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      v[i] = momentum * v[i] + gradients[i];
      x[i] -= double(rate) * v[i];
    }
  }
  /// values <- W values
  void mix(const Topology& topology, std::vector<double>& values) const {
    const std::vector<double> matrix = topology.matrix();
    std::vector<double> result(values.size(), 0.0);
    for (int i = 0; i < ranks; ++i) {
      for (int j = 0; j < ranks; ++j) {
        const double weight = matrix[static_cast<std::size_t>(i) * ranks + j];
        for (std::size_t k = 0; k < length; ++k) result[i * length + k] += weight * values[j * length + k];
      }
    }
    values = result;
  }
  /// The largest difference of this rank's row from `found`.
  [[nodiscard]] double error(const std::vector<double>& values, const std::vector<float>& found) const {
    double largest = 0;
    for (std::size_t k = 0; k < length; ++k) {
      largest = larger_error(largest, values[this_rank() * length + k] - found[k]);
    }
    return largest;
  }

  int ranks;
  std::size_t length;
  double momentum;
  std::vector<double> x, v, g;
};

/// What a checkpoint keeps of an averager, and how it comes back.
class Kept {
 public:
  explicit Kept(Averager& averager) {
    for (const SavedState& state : averager.state()) {
      const auto bytes = bytes_of(state.values);
      names_.push_back(state.name);
      bytes_.emplace_back(bytes.begin(), bytes.end());
    }
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  void restore(Averager& averager) const {
    const std::vector<SavedState> states = averager.state();
    for (std::size_t i = 0; i < states.size(); ++i) {
      std::copy(bytes_.at(i).begin(), bytes_.at(i).end(), bytes_of(states[i].values).begin());
    }
    averager.restored();
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> bytes_;
};

/// The number of ranks whose vectors differ; the same on all ranks.
inline int ranks_that_differ(const std::vector<float>& a, const std::vector<float>& b) {
  double differ = a == b ? 0 : 1;
  differ = Communicator(MPI_COMM_WORLD).sum(differ);
  return static_cast<int>(differ);
}

/// Distance of the replicas from their mean, and that mean's entries summed, over all ranks.
struct Consensus {
  double error = 0, mean = 0;
};

inline Consensus consensus_of(const std::vector<float>& x) {
  std::vector<double> mean(x.begin(), x.end());
  Communicator(MPI_COMM_WORLD).sum(std::span(mean));
  Consensus consensus;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean[i] /= all_ranks();
    consensus.mean += mean[i];
    consensus.error += (x[i] - mean[i]) * (x[i] - mean[i]);
  }
  consensus.error = Communicator(MPI_COMM_WORLD).sum(consensus.error);
  consensus.error = std::sqrt(consensus.error);
  return consensus;
}

}  // namespace halograd
