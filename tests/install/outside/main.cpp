#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>

#include "graph/spectral_gap.hpp"
#include "graph/topology.hpp"
#include "kernels/types.hpp"
#include "version.hpp"

/// The uniform ring of eight ranks has the eigenvalues (1 + 2 cos(2 pi k / 8)) / 3.
int main(int argc, char* argv[]) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const halograd::Buffer<float> buffer("buffer", 8);
  halograd::TopologyConfig config;
  config.kind = "ring";
  const double gap = halograd::spectral_gap(halograd::make_topology(config, static_cast<int>(buffer.size())));
  const double expected = 1.0 - (1.0 + 2.0 * std::cos(2.0 * M_PI / 8.0)) / 3.0;
  std::printf("halograd %s: spectral gap %.6f, expected %.6f\n", HALOGRAD_VERSION, gap, expected);
  return std::abs(gap - expected) < 1e-10 ? 0 : 1;
}
