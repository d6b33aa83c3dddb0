#include "averagers/halo_averager.hpp"

#include <algorithm>

#include "support/trace.hpp"

namespace halograd {
namespace {

/// Values that go through mix, optimizer and publication while they are in the caches of `threads` cores.
constexpr std::size_t slice_length(int threads) {
  return (std::size_t{1} << 16U) * static_cast<std::size_t>(threads);
}

}  // namespace

HaloAverager::HaloAverager(const AveragerContext& context, std::size_t host_halos, bool sliced)
    : WeightAverager(context),
      mixer_(context.length, host_halos),
      sliced_(runs_on_host && sliced),
      last_step_(context.last_step) {
  halos_.reserve(host_halos);
}

void HaloAverager::update(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights, Vector<float> gradient,
                          double share, const OptimizeSlice& optimize) {
  if (!sliced_) return Averager::update(exec, step, weights, gradient, share, optimize);
  const double self_weight = combine_first() ? take_halos(step) : 1;
  const bool sends = !combine_first() || step < last_step_;
  const trace::Span span("mix", "comm");
  const std::size_t all = weights.extent(0), most = slice_length(exec.concurrency());
  for (std::size_t begin = 0; begin < all; begin += most) {
    const Vector<float> values = slice(weights, begin, std::min(most, all - begin));
    if (combine_first()) mixer_.mix_slice(exec, self_weight, halos_, begin, values);
    optimize(begin, values.extent(0));
    store_ahead(exec, begin, values, all > most);
    if (sends) send_ahead(exec, begin, values);
  }
  exec.fence();
  if (combine_first()) release_halos(step);
  after_update(exec, step, weights);
}

void HaloAverager::combine(const ExecutionSpace& exec, std::int64_t step, Vector<float> weights) {
  mix_halos(exec, take_halos(step), weights);
  release_halos(step);
}

}  // namespace halograd
