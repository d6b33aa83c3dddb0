#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "kernels/mix.hpp"
#include "support/trace.hpp"

namespace halograd {

/// A neighbour's weights in host memory, and the share with which they enter an average.
struct WeightedHalo {
  double weight = 0;
  HostVector<const float> halo;
};

/// Mixes halos that lie in host memory into weights that may lie on a device.
class HaloMixer {
 public:
  /// For up to `degree` halos of `length` values.
  HaloMixer(std::size_t length, std::size_t degree) {
    if constexpr (!halos_are_in_reach) {
      for (std::size_t i = 0; i < std::min<std::size_t>(mix_width, degree); ++i) {
        device_halos_[i].emplace(Kokkos::view_alloc("halograd::halo", Kokkos::WithoutInitializing), length);
      }
    }
  }

  /// weights = self_weight weights + sum of the weighted halos, summed in that order; fences.
  void mix(const ExecutionSpace& exec, double self_weight, const std::vector<WeightedHalo>& halos,
           Vector<float> weights) {
    const trace::Span span("mix", "comm");
    mix_slice(exec, self_weight, halos, 0, weights);
    exec.fence();
  }

  /// The same for the weights from number `begin` on, as many as are given, and the halos' values there; neither fenced
  /// nor traced.
  void mix_slice(const ExecutionSpace& exec, double self_weight, const std::vector<WeightedHalo>& halos,
                 std::size_t begin, Vector<float> weights) {
    MixTerms terms;
    terms.self_weight = self_weight;
    for (std::size_t first = 0; first < halos.size(); first += mix_width) {
      terms.count = static_cast<int>(std::min<std::size_t>(mix_width, halos.size() - first));
      for (int i = 0; i < terms.count; ++i) {
        const WeightedHalo& halo = halos[first + static_cast<std::size_t>(i)];
        terms.weights[i] = halo.weight;
        terms.halos[i] = in_reach(exec, i, slice(halo.halo, begin, weights.extent(0)));
      }
      halograd::mix(exec, terms, weights);
      terms.self_weight = 1;
    }
  }

 private:
  static constexpr bool halos_are_in_reach = Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible;

  const float* in_reach([[maybe_unused]] const ExecutionSpace& exec, [[maybe_unused]] int i,
                        HostVector<const float> halo) {
    if constexpr (halos_are_in_reach) {
      return halo.data();
    } else {
      const auto copy = slice(*device_halos_[i], 0, halo.extent(0));
      Kokkos::deep_copy(exec, copy, halo);
      return copy.data();
    }
  }

  std::array<std::optional<Buffer<float>>, mix_width> device_halos_;
};

}  // namespace halograd
