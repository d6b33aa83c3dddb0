#include <cmath>

#include "kernels/batch_norm_strips.hpp"
#include "kernels/column_sums.hpp"

namespace halograd {

namespace {

/// Where forward has cut y off: found by y once more, since x is read anyway.
template <class T, bool Ceiling>
struct Cut {
  Wide<T> slope[Ceiling ? strip_width : 1];
  Wide<T> lift[Ceiling ? strip_width : 1];
  Wide<T> ceiling;
  KOKKOS_FORCEINLINE_FUNCTION Wide<T> operator()(Wide<T> gradient, Wide<T> deviation, int i) const {
    if constexpr (Ceiling) gradient = deviation * slope[i] + lift[i] >= ceiling ? 0 : gradient;
    return gradient;
  }
};

/// What backward reads of a batch normalisation.
template <class T>
struct Normalised {
  Partition partition;
  const T* x;
  const T* dy;
  const Wide<T>* scale;
  const Wide<T>* shift;
  const Wide<T>* mean;
  const Wide<T>* inverse_std;
  Wide<T> ceiling;

  template <bool Ceiling>
  KOKKOS_FUNCTION void prepare(const Strip& strip, Cut<T, Ceiling>& cut) const {
    if constexpr (Ceiling) {
      strip.repeat([this](int c) { return scale[c] * inverse_std[c]; }, cut.slope);
      strip.repeat([this](int c) { return shift[c]; }, cut.lift);
      cut.ceiling = ceiling;
    }
  }
};

/// Terms of the sums of dy and of dy (x - mean).
template <class T, bool Ceiling>
struct GradientTerms {
  const T* x;
  const T* dy;
  Cut<T, Ceiling> cut;
  Wide<T> mean[strip_width];
  KOKKOS_FORCEINLINE_FUNCTION void fetch(long offset, int count) const {
    halograd::fetch(x + offset, count);
    halograd::fetch(dy + offset, count);
  }
  KOKKOS_FORCEINLINE_FUNCTION Sums<Wide<T>> at(long offset, int i) const {
    const Wide<T> deviation = x[offset] - mean[i];
    const Wide<T> gradient = cut(dy[offset], deviation, i);
    return {gradient, gradient * deviation};
  }
};

template <class T, bool Ceiling>
struct SumGradients {
  Normalised<T> from;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Partition& partition = from.partition;
    const Strip strip(partition, item);
    const Wide<T>* const means = from.mean;
    GradientTerms<T, Ceiling> terms{from.x, from.dy, {}, {}};
    from.prepare(strip, terms.cut);
    strip.repeat([=](int c) { return means[c]; }, terms.mean);
    double* const totals = workspace + strip.block * sums_pitch(partition.channels) + strip.channel;
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
template <class T, bool Add, bool Mask, bool Ceiling>
struct InputGradient {
  Normalised<T> given;
  const double* workspace;
  T* dx;

  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(given.partition, item);
    const int channels = given.partition.channels;
    Cut<T, Ceiling> cut;
    given.prepare(strip, cut);
    Wide<T> centre[strip_width], slope[strip_width], level[strip_width], tilt[strip_width];
    strip.repeat([this](int c) { return given.mean[c]; }, centre);
    strip.repeat([this](int c) { return given.scale[c] * given.inverse_std[c]; }, slope);
    strip.repeat([this](int c) { return static_cast<Wide<T>>(workspace[c]); }, level);
    strip.repeat([this, channels](int c) { return static_cast<Wide<T>>(workspace[channels + c]); }, tilt);
    const T* const values = given.x;
    const T* const from = given.dy;
    T* const to = dx;
    const auto fetch_read = [=](long offset, int count) {
      halograd::fetch(values + offset, count);
      halograd::fetch(from + offset, count);
    };
    write_strip(strip, to, fetch_read, [&](long at, int i) {
      const Wide<T> deviation = values[at] - centre[i];
      Wide<T> gradient = slope[i] * (cut(from[at], deviation, i) - level[i] - deviation * tilt[i]);
      if constexpr (Add) gradient += to[at];
      if constexpr (Mask) gradient = values[at] > 0 ? gradient : 0;
      return gradient;
    });
  }
};

template <bool Ceiling, class T>
void launch_sums(const ExecutionSpace& exec, const Normalised<T>& from, double* workspace) {
  Kokkos::parallel_for(label("halograd::batch_norm_gradients"), FlatRange(exec, 0, from.partition.items()),
                       SumGradients<T, Ceiling>{from, workspace});
}

template <bool Ceiling, bool Add, bool Mask, class T>
void launch(const ExecutionSpace& exec, const Normalised<T>& from, const double* workspace, T* dx) {
  Kokkos::parallel_for(label("halograd::batch_norm_backward"), FlatRange(exec, 0, from.partition.items()),
                       InputGradient<T, Add, Mask, Ceiling>{from, workspace, dx});
}
template <bool Ceiling, class T>
void launch_input(const ExecutionSpace& exec, bool add, bool mask, const Normalised<T>& from, const double* workspace,
                  T* dx) {
  if (add) {
    mask ? launch<Ceiling, true, true>(exec, from, workspace, dx)
         : launch<Ceiling, true, false>(exec, from, workspace, dx);
  } else {
    mask ? launch<Ceiling, false, true>(exec, from, workspace, dx)
         : launch<Ceiling, false, false>(exec, from, workspace, dx);
  }
}

}  // namespace

template <class T>
void batch_norm_backward(const ExecutionSpace& exec, const BatchNormBackward<T>& call) {
  const bool wanted = call.dx.extent(0) > 0, ceiling = std::isfinite(call.ceiling);
  const std::size_t values = call.x.extent(0);
  require_rows("batch_norm_backward", call.rows, call.channels, values, call.dy.extent(0));
  require_rows("batch_norm_backward", call.rows, call.channels, values, wanted ? call.dx.extent(0) : values);
  require_batch("batch_norm_backward", call.rows, call.all, call.channels, call.workspace.extent(0));
  Normalised<T> given{.partition = partition_of(call.rows, call.channels),
                      .x = call.x.data(),
                      .dy = call.dy.data(),
                      .scale = call.scale.data(),
                      .shift = call.shift.data(),
                      .mean = call.saved_mean.data(),
                      .inverse_std = call.saved_inverse_std.data(),
                      .ceiling = static_cast<Wide<T>>(call.ceiling)};
  double* sums = call.workspace.data();
  ceiling ? launch_sums<true>(exec, given, sums) : launch_sums<false>(exec, given, sums);
  join_blocks(exec, "halograd::batch_norm_parameters", call.channels, given.partition.blocks,
              JoinGradients<T>{{sums, call.channels, sums_pitch(call.channels)},
                               sums,
                               call.all.count(call.rows),
                               call.saved_inverse_std.data(),
                               call.dscale.data(),
                               call.dshift.data()});
  if (call.all.elsewhere()) call.all.add(exec, slice(call.workspace, 0, 2 * static_cast<std::size_t>(call.channels)));
  if (!wanted) return;
  given.partition = short_blocks(given.partition);
  if (ceiling) {
    launch_input<true>(exec, call.accumulate, call.mask, given, sums, call.dx.data());
  } else {
    launch_input<false>(exec, call.accumulate, call.mask, given, sums, call.dx.data());
  }
}

#define HALOGRAD_INSTANTIATE(T) \
  template void batch_norm_backward<T>(const ExecutionSpace&, const BatchNormBackward<T>&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
