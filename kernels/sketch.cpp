#include "kernels/sketch.hpp"

#include "kernels/chunks.hpp"
#include "kernels/random.hpp"

namespace halograd {

std::array<double, sketch_width> sketch(const ExecutionSpace& exec, std::uint64_t key, Vector<const float> x) {
  // Blocks of one length on every device, whose sums are added in their order.
  constexpr long block = 2048;
  const auto length = static_cast<long>(x.extent(0));
  const long blocks = (length + block - 1) / block;
  const Kokkos::View<double*, Kokkos::LayoutRight, MemorySpace> sums(
      Kokkos::view_alloc("halograd::sketch_sums", Kokkos::WithoutInitializing),
      static_cast<std::size_t>(blocks * sketch_width));
  const float* const values = x.data();
  Kokkos::parallel_for(
      label("halograd::sketch"), FlatRange(exec, 0, blocks), KOKKOS_LAMBDA(const long item) {
        double sum[sketch_width] = {};
        const long end = (item + 1) * block < length ? (item + 1) * block : length;
        for (long i = item * block; i < end; ++i) {
          const std::uint64_t bits = random_bits(key, static_cast<std::uint64_t>(i));
          const auto value = static_cast<double>(values[i]);
          for (int k = 0; k < sketch_width; ++k) {
            sum[k] += ((bits >> static_cast<unsigned>(k)) & 1U) != 0 ? value : -value;
          }
        }
        for (int k = 0; k < sketch_width; ++k) sums(item * sketch_width + k) = sum[k];
      });
  exec.fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), sums);
  std::array<double, sketch_width> total{};
  for (long item = 0; item < blocks; ++item) {
    for (int k = 0; k < sketch_width; ++k) {
      total[static_cast<std::size_t>(k)] += host(static_cast<std::size_t>(item * sketch_width + k));
    }
  }
  return total;
}

}  // namespace halograd
