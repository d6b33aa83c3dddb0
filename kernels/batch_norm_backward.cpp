#include "kernels/batch_norm_strips.hpp"
#include "kernels/column_sums.hpp"

namespace halograd {

namespace {

/// Terms of the sums of dy and of dy (x - mean).
template <class T>
struct GradientTerms {
  const T* x;
  const T* dy;
  Wide<T> mean[strip_width];
  KOKKOS_FORCEINLINE_FUNCTION void fetch_ahead(long offset, int count) const {
    halograd::fetch_ahead(x + offset, count);
    halograd::fetch_ahead(dy + offset, count);
  }
  KOKKOS_FORCEINLINE_FUNCTION Sums<Wide<T>> at(long offset, int i) const {
    const Wide<T> gradient = dy[offset];
    return {gradient, gradient * (x[offset] - mean[i])};
  }
};

template <class T>
struct SumGradients {
  Partition partition;
  const T* x;
  const T* dy;
  const Wide<T>* mean;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    const Wide<T>* const means = mean;
    GradientTerms<T> terms{x, dy, {}};
    strip.repeat([=](int c) { return means[c]; }, terms.mean);
    double* const totals = workspace + strip.block * 2 * partition.channels + strip.channel;
    double* const products = totals + partition.channels;
    sum_strip<Wide<T>>(strip, terms, [=](int c, const Sums<double>& sums) {
      totals[c] = sums.first;
      products[c] = sums.second;
    });
  }
};

/// The parameters' gradients from the blocks' sums, and into the first block this rank's part of the means that the
/// input's gradient needs.
template <class T>
struct JoinGradients : BlockSums<2> {
  double* means;
  long rows;  ///< of all ranks
  const Wide<T>* saved_inverse_std;
  Wide<T>* dscale;
  Wide<T>* dshift;
  KOKKOS_FUNCTION void finish(long c, const Gathered& gathered) const {
    const double count = static_cast<double>(rows);
    const double inverse_std = static_cast<double>(saved_inverse_std[c]);
    const double sum = gathered.sums[0], products = gathered.sums[1];
    dshift[c] = static_cast<Wide<T>>(sum);
    dscale[c] = static_cast<Wide<T>>(products * inverse_std);
    means[c] = sum / count;
    means[channels + c] = products * inverse_std * inverse_std / count;
  }
};

/// dx = scale inverse_std (dy - mean(dy) - (x - mean) mean(dy (x - mean)) inverse_std^2), zero where x is not positive
/// if Mask. The two means lie in the workspace's first block.
template <class T, bool Add, bool Mask>
struct InputGradient {
  Partition partition;
  const T* x;
  const T* dy;
  const Wide<T>* scale;
  const Wide<T>* mean;
  const Wide<T>* inverse_std;
  const double* workspace;
  T* dx;

  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    const int channels = partition.channels;
    Wide<T> centre[strip_width], slope[strip_width], level[strip_width], tilt[strip_width];
    strip.repeat([this](int c) { return mean[c]; }, centre);
    strip.repeat([this](int c) { return scale[c] * inverse_std[c]; }, slope);
    strip.repeat([this](int c) { return static_cast<Wide<T>>(workspace[c]); }, level);
    strip.repeat([this, channels](int c) { return static_cast<Wide<T>>(workspace[channels + c]); }, tilt);
    const T* const values = x;
    const T* const from = dy;
    T* const to = dx;
    const auto fetch = [=](long offset, int count) {
      fetch_ahead(values + offset, count);
      fetch_ahead(from + offset, count);
    };
    write_strip(strip, to, fetch, [&](long at, int i) {
      Wide<T> gradient = slope[i] * (from[at] - level[i] - (values[at] - centre[i]) * tilt[i]);
      if constexpr (Add) gradient += to[at];
      if constexpr (Mask) gradient = values[at] > 0 ? gradient : 0;
      return gradient;
    });
  }
};

template <bool Add, bool Mask, class T>
void launch(const ExecutionSpace& exec, const InputGradient<T, false, false>& f) {
  Kokkos::parallel_for(
      label("halograd::batch_norm_backward"), FlatRange(exec, 0, f.partition.items()),
      InputGradient<T, Add, Mask>{f.partition, f.x, f.dy, f.scale, f.mean, f.inverse_std, f.workspace, f.dx});
}

}  // namespace

template <class T>
void batch_norm_backward(const ExecutionSpace& exec, const BatchNormBackward<T>& call) {
  const bool wanted = call.dx.extent(0) > 0;
  const std::size_t values = call.x.extent(0);
  require_rows("batch_norm_backward", call.rows, call.channels, values, call.dy.extent(0));
  require_rows("batch_norm_backward", call.rows, call.channels, values, wanted ? call.dx.extent(0) : values);
  require_batch("batch_norm_backward", call.rows, call.all, call.channels, call.workspace.extent(0));
  const Partition partition = partition_of(call.rows, call.channels);
  double* sums = call.workspace.data();
  Kokkos::parallel_for(label("halograd::batch_norm_gradients"), FlatRange(exec, 0, partition.items()),
                       SumGradients<T>{partition, call.x.data(), call.dy.data(), call.saved_mean.data(), sums});
  join_blocks(exec, "halograd::batch_norm_parameters", call.channels, partition.blocks,
              JoinGradients<T>{{sums, call.channels},
                               sums,
                               call.all.count(call.rows),
                               call.saved_inverse_std.data(),
                               call.dscale.data(),
                               call.dshift.data()});
  if (call.all.elsewhere()) call.all.add(exec, slice(call.workspace, 0, 2 * static_cast<std::size_t>(call.channels)));
  if (!wanted) return;
  const InputGradient<T, false, false> plain{.partition = short_blocks(partition),
                                             .x = call.x.data(),
                                             .dy = call.dy.data(),
                                             .scale = call.scale.data(),
                                             .mean = call.saved_mean.data(),
                                             .inverse_std = call.saved_inverse_std.data(),
                                             .workspace = sums,
                                             .dx = call.dx.data()};
  if (call.accumulate) {
    call.mask ? launch<true, true>(exec, plain) : launch<true, false>(exec, plain);
  } else {
    call.mask ? launch<false, true>(exec, plain) : launch<false, false>(exec, plain);
  }
}

#define HALOGRAD_INSTANTIATE(T) \
  template void batch_norm_backward<T>(const ExecutionSpace&, const BatchNormBackward<T>&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
