#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "kernels/mix.hpp"
#include "support/trace.hpp"
#include "window/halo_values.hpp"

namespace halograd {

/// A neighbour's weights, and the share with which they enter an average.
struct WeightedHalo {
  double weight = 0;
  HaloValues<const float> halo;
};

/// Mixes halos into weights in device memory, where halos that lie in host memory are brought first.
class HaloMixer {
 public:
  /// For up to `degree` halos of `length` values in host memory, and any of device memory.
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
        terms.halos[i] = in_reach(exec, i, halo.halo.part(begin, weights.extent(0)));
      }
      halograd::mix(exec, terms, weights);
      terms.self_weight = 1;
    }
  }

 private:
  static constexpr bool halos_are_in_reach = Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible;

  const float* in_reach([[maybe_unused]] const ExecutionSpace& exec, [[maybe_unused]] int i,
                        HaloValues<const float> halo) {
    if (halo.memory() == HaloMemory::device) return halo.device().data();
    if constexpr (halos_are_in_reach) {
      return halo.host().data();
    } else {
      const auto copy = slice(*device_halos_[i], 0, halo.length());
      Kokkos::deep_copy(exec, copy, halo.host());
      return copy.data();
    }
  }

  std::array<std::optional<Buffer<float>>, mix_width> device_halos_;
};

}  // namespace halograd
