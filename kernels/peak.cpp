#include "kernels/peak.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/chunks.hpp"

#if !defined(__CUDACC__) && !defined(__HIPCC__)
#include "kernels/host/bf16_units.hpp"
#include "kernels/host/blocking.hpp"
#include "kernels/host/microkernel.hpp"
#endif

namespace halograd {
namespace {

constexpr int chains = 12;         // independent sums a thread: latency times throughput of today's cores, and some
constexpr int repeats = 8;         // of which the best counts
constexpr double mean_over = 0.2;  // seconds

#if !defined(__CUDACC__) && !defined(__HIPCC__)
using Register = host::Pack<float>;
constexpr int register_lanes = host::lanes<float>;
#else
using Register = float;
constexpr int register_lanes = 1;
#endif

/// One thread's multiply-adds; the result is stored, so that none is left out.
struct MultiplyAdds {
  float* results;
  float factor, term;
  long rounds;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Register by = Register{} + factor, plus = Register{} + term;
    Register sums[chains];
    for (int i = 0; i < chains; ++i) sums[i] = Register{} + static_cast<float>(i);
    for (long round = 0; round < rounds; ++round) {
      for (Register& chain : sums) chain = chain * by + plus;
    }
    Register total{};
    for (const Register& chain : sums) total += chain;
    float sum = 0;
    if constexpr (register_lanes == 1) {
      sum = *reinterpret_cast<const float*>(&total);
    } else {
      for (int lane = 0; lane < register_lanes; ++lane) sum += reinterpret_cast<const float*>(&total)[lane];
    }
    results[item] = sum;
  }
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double least_seconds(const ExecutionSpace& exec, const std::function<void()>& action) {
  double least = 1e30;
  for (int i = 0; i <= repeats; ++i) {
    exec.fence();
    const auto begin = Clock::now();
    action();
    exec.fence();
    if (i > 0) least = std::min(least, seconds_since(begin));  // 0 warms up
  }
  return least;
}

double mean_seconds(const ExecutionSpace& exec, const std::function<void()>& action) {
  double seconds = 0;
  int runs = 0;
  for (; seconds < mean_over; ++runs) {
    exec.fence();
    const auto begin = Clock::now();
    action();
    exec.fence();
    if (runs > 0) seconds += seconds_since(begin);  // 0 warms up
  }
  return seconds / (runs - 1);
}

double triad_bandwidth(const ExecutionSpace& exec, decltype(least_seconds)& measure) {
  constexpr long length = 16L << 20;
  const Buffer<float> a("halograd::triad_a", length), b("halograd::triad_b", length), c("halograd::triad_c", length);
  float* const to = a.data();
  const float* const left = b.data();
  const float* const right = c.data();
  const double seconds = measure(exec, [&] {
    for_each_chunk(
        exec, "halograd::triad", length, KOKKOS_LAMBDA(const long begin, const long end) {
          HALOGRAD_IVDEP
          for (long i = begin; i < end; ++i) to[i] = left[i] + 3.0F * right[i];
        });
  });
  return 3.0 * sizeof(float) * static_cast<double>(length) / seconds;
}

}  // namespace

double measure_fma_peak(const ExecutionSpace& exec) {
  const long rounds = runs_on_host ? 1'000'000 : 100'000;
  const long items = exec.concurrency();
  const Buffer<float> results("halograd::peak_results", static_cast<std::size_t>(items));
  const double seconds = least_seconds(exec, [&] {
    Kokkos::parallel_for("halograd::multiply_adds", FlatRange(exec, 0, items),
                         MultiplyAdds{results.data(), 0.999F, 0.001F, rounds});
  });
  return 2.0 * chains * register_lanes * static_cast<double>(rounds) * static_cast<double>(items) / seconds;
}

double measure_passes(const ExecutionSpace& exec, const std::function<bool(double)>& is_done) {
  constexpr long rounds = runs_on_host ? 5'000 : 1'000;
  const long items = exec.concurrency();
  const Buffer<float> results("halograd::pass_results", static_cast<std::size_t>(items));
  const auto begin = Clock::now();
  double passes = 0, seconds = 0;
  for (; !is_done(seconds); seconds = seconds_since(begin), ++passes) {
    Kokkos::parallel_for("halograd::passes", FlatRange(exec, 0, items),
                         MultiplyAdds{results.data(), 0.999F, 0.001F, rounds});
    exec.fence();
  }
  return passes / seconds;
}

double measure_bf16_peak([[maybe_unused]] const ExecutionSpace& exec) {
#if !defined(__CUDACC__) && !defined(__HIPCC__)
  using namespace host::bf16;
  const Unit* const unit = fast_unit();
  if (unit == nullptr) return 0;
  constexpr int columns = 2, steps = 16, products = 1000;
  struct alignas(64) Operands {
    std::uint16_t left[tile_values] = {}, right[steps * tile_values] = {};
    float sums[most_row_blocks * tile_width * columns * tile_width];
  };
  const int tasks = host::concurrency();
  std::vector<Operands> operands(static_cast<std::size_t>(tasks));
  const long left_steps[steps] = {};
  const double seconds = least_seconds(exec, [&] {
    host::parallel_tasks(exec, "halograd::bf16_products", tasks, [&](int task) {
      Operands& own = operands[task];
      const std::uint16_t* left[most_row_blocks];
      std::fill_n(left, most_row_blocks, own.left);
      const Session session(*unit);
      for (int i = 0; i < products; ++i) {
        session.multiply({left, left_steps, tile_depth, unit->row_blocks, own.right, 0, columns, steps, own.sums,
                          columns * tile_width, false});
      }
    });
  });
  return 2.0 * unit->row_blocks * columns * tile_width * tile_values * steps * products * tasks / seconds;
#else
  return 0;
#endif
}

double measure_memory_peak(const ExecutionSpace& exec) {
  return triad_bandwidth(exec, least_seconds);
}

double measure_memory_bandwidth(const ExecutionSpace& exec) {
  return triad_bandwidth(exec, mean_seconds);
}

}  // namespace halograd
