#include "kernels/batch_norm.hpp"

#include "kernels/batch_norm_strips.hpp"
#include "kernels/column_sums.hpp"

namespace halograd {

namespace {

/// Terms of x minus the block's first row: without a shift the variance of data far from zero cancels.
template <class T>
struct MomentTerms {
  const T* x;
  Wide<T> shift[strip_width];
  KOKKOS_FORCEINLINE_FUNCTION void fetch(long offset, int count) const { halograd::fetch(x + offset, count); }
  KOKKOS_FORCEINLINE_FUNCTION Sums<Wide<T>> at(long offset, int i) const {
    const Wide<T> value = x[offset] - shift[i];
    return {value, value * value};
  }
};

/// A block's mean and sum of squared deviations from it, for each channel, into the workspace (blocks, 2, C),
/// sums_pitch apart.
template <class T>
struct BlockMoments {
  Partition partition;
  const T* x;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    const T* const origin = x + strip.begin * partition.channels;
    MomentTerms<T> terms{x, {}};
    strip.repeat([=](int c) { return origin[c]; }, terms.shift);
    double* const means = workspace + strip.block * sums_pitch(partition.channels) + strip.channel;
    double* const squares = means + partition.channels;
    const double count = static_cast<double>(strip.end - strip.begin);
    sum_strip<Wide<T>>(strip, terms, [&](int c, const Sums<double>& sums) {
      const double distance = sums.first / count;
      means[c] = static_cast<double>(terms.shift[c]) + distance;
      squares[c] = sums.second - sums.first * distance;
    });
  }
};

/// What follows from a channel's mean and its sum of squared deviations from it.
template <class T>
struct Statistics {
  double count, epsilon, momentum;
  Wide<T>* running_mean;
  Wide<T>* running_var;
  Wide<T>* saved_mean;
  Wide<T>* saved_inverse_std;

  KOKKOS_FUNCTION void keep(long c, double mean, double squares) const {
    saved_mean[c] = static_cast<Wide<T>>(mean);
    saved_inverse_std[c] = static_cast<Wide<T>>(1 / math::sqrt(squares / count + epsilon));
    const double unbiased = squares / (count - 1);
    running_mean[c] = static_cast<Wide<T>>((1 - momentum) * static_cast<double>(running_mean[c]) + momentum * mean);
    running_var[c] = static_cast<Wide<T>>((1 - momentum) * static_cast<double>(running_var[c]) + momentum * unbiased);
  }
};

/// The mean and the sum of squared deviations of this rank's rows from those of the blocks (Chan, Golub, LeVeque,
/// 1979). Where other ranks have rows too, what can be added to theirs goes into the first block, and KeepSums follows.
template <class T>
struct JoinMoments {
  Partition partition;
  double* workspace;
  bool alone;
  Statistics<T> statistics;

  template <class Sum>
  KOKKOS_FUNCTION Sums<double> gather(long c, const Sum& sum) const {
    const Partition blocks = partition;
    const double* const means = workspace + c;
    const double* const squares = means + blocks.channels;
    const long pitch = sums_pitch(blocks.channels);
    const double mean =
        sum([=](long block) { return static_cast<double>(blocks.rows_of(block)) * means[block * pitch]; }) /
        static_cast<double>(blocks.rows);
    const double all = sum([=](long block) {
      const double distance = means[block * pitch] - mean;
      return squares[block * pitch] + static_cast<double>(blocks.rows_of(block)) * distance * distance;
    });
    return {mean, all < 0 ? 0 : all};  // a NaN stays one
  }

  KOKKOS_FUNCTION void finish(long c, const Sums<double>& moments) const {
    if (alone) {
      statistics.keep(c, moments.first, moments.second);
      return;
    }
    const double sum = static_cast<double>(partition.rows) * moments.first;
    workspace[c] = sum;
    workspace[partition.channels + c] = moments.second + sum * moments.first;
  }
};

/// The statistics from the sums of x and x^2 over all ranks, in the first block.
template <class T>
struct KeepSums {
  const double* sums;
  int channels;
  Statistics<T> statistics;
  KOKKOS_FUNCTION void operator()(const long c) const {
    const double mean = sums[c] / statistics.count, squares = sums[channels + c] - sums[c] * mean;
    statistics.keep(c, mean, squares < 0 ? 0 : squares);  // a NaN stays one
  }
};

/// y = (x - mean) scale inverse_std + shift [+ addend] [rectified, up to a ceiling], where inverse_std is given or
/// comes from a variance.
template <class T, bool Add, bool Relu>
struct Normalise {
  Partition partition;
  const T* x;
  const Wide<T>* scale;
  const Wide<T>* shift;
  const Wide<T>* mean;
  const Wide<T>* spread;
  bool spread_is_variance;
  double epsilon;
  const T* addend;
  Wide<T> ceiling;
  T* y;

  KOKKOS_FUNCTION Wide<T> factor(int c) const {
    if (!spread_is_variance) return scale[c] * spread[c];
    return static_cast<Wide<T>>(static_cast<double>(scale[c]) / math::sqrt(static_cast<double>(spread[c]) + epsilon));
  }

  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    Wide<T> centre[strip_width], slope[strip_width], lift[strip_width];
    strip.repeat([this](int c) { return mean[c]; }, centre);
    strip.repeat([this](int c) { return factor(c); }, slope);
    strip.repeat([this](int c) { return shift[c]; }, lift);
    const T* const values = x;
    const T* const terms = addend;
    const Wide<T> most = ceiling;
    const auto fetch_read = [=](long offset, int count) {
      halograd::fetch(values + offset, count);
      if constexpr (Add) halograd::fetch(terms + offset, count);
    };
    write_strip(strip, y, fetch_read, [&](long at, int i) {
      Wide<T> value = (values[at] - centre[i]) * slope[i] + lift[i];
      if constexpr (Add) value += terms[at];
      if constexpr (Relu) {
        value = value < 0 ? 0 : value;
        value = value > most ? most : value;
      }
      return value;
    });
  }
};

template <bool Add, bool Relu, class T>
void launch(const ExecutionSpace& exec, const Normalise<T, false, false>& f) {
  Kokkos::parallel_for(label("halograd::batch_norm_forward"), FlatRange(exec, 0, f.partition.items()),
                       Normalise<T, Add, Relu>{f.partition, f.x, f.scale, f.shift, f.mean, f.spread,
                                               f.spread_is_variance, f.epsilon, f.addend, f.ceiling, f.y});
}

template <class T>
void normalise(const ExecutionSpace& exec, bool relu, const Normalise<T, false, false>& plain) {
  if (plain.addend != nullptr) {
    relu ? launch<true, true>(exec, plain) : launch<true, false>(exec, plain);
  } else {
    relu ? launch<false, true>(exec, plain) : launch<false, false>(exec, plain);
  }
}

void require_addend(const char* kernel, std::size_t addend, std::size_t y) {
  HALOGRAD_REQUIRE(addend == 0 || addend >= y, kernel, ": the addend has ", addend, " values, the result ", y);
}

}  // namespace

std::size_t batch_norm_workspace(long rows, int channels) {
  // A bound that grows with the rows, as the number of blocks itself does not: smaller batches fit as well.
  const long least = rows_in_block(1, channels);
  const long blocks = std::min((rows + least - 1) / least, most_blocks(channels));
  return static_cast<std::size_t>(blocks * sums_pitch(channels));
}

template <class T>
void batch_norm_forward_training(const ExecutionSpace& exec, const BatchNormTraining<T>& call) {
  require_rows("batch_norm_forward_training", call.rows, call.channels, call.x.extent(0), call.y.extent(0));
  require_addend("batch_norm_forward_training", call.addend.extent(0), call.y.extent(0));
  require_batch("batch_norm_forward_training", call.rows, call.all, call.channels, call.workspace.extent(0));
  const Partition partition = partition_of(call.rows, call.channels);
  double* sums = call.workspace.data();
  Kokkos::parallel_for(label("halograd::batch_norm_moments"), FlatRange(exec, 0, partition.items()),
                       BlockMoments<T>{partition, call.x.data(), sums});
  const Statistics<T> statistics{static_cast<double>(call.all.count(call.rows)),
                                 call.epsilon,
                                 call.momentum,
                                 call.running_mean.data(),
                                 call.running_var.data(),
                                 call.saved_mean.data(),
                                 call.saved_inverse_std.data()};
  join_blocks(exec, "halograd::batch_norm_statistics", call.channels, partition.blocks,
              JoinMoments<T>{partition, sums, !call.all.elsewhere(), statistics});
  if (call.all.elsewhere()) {
    call.all.add(exec, slice(call.workspace, 0, 2 * static_cast<std::size_t>(call.channels)));
    Kokkos::parallel_for(label("halograd::batch_norm_statistics_of_ranks"), FlatRange(exec, 0, call.channels),
                         KeepSums<T>{sums, call.channels, statistics});
  }
  normalise<T>(exec, call.relu,
               {.partition = short_blocks(partition),
                .x = call.x.data(),
                .scale = call.scale.data(),
                .shift = call.shift.data(),
                .mean = call.saved_mean.data(),
                .spread = call.saved_inverse_std.data(),
                .spread_is_variance = false,
                .epsilon = call.epsilon,
                .addend = call.addend.data(),
                .ceiling = static_cast<Wide<T>>(call.ceiling),
                .y = call.y.data()});
}

template <class T>
void batch_norm_forward_inference(const ExecutionSpace& exec, const BatchNormInference<T>& call) {
  require_rows("batch_norm_forward_inference", call.rows, call.channels, call.x.extent(0), call.y.extent(0));
  require_addend("batch_norm_forward_inference", call.addend.extent(0), call.y.extent(0));
  normalise<T>(exec, call.relu,
               {.partition = short_blocks(partition_of(call.rows, call.channels)),
                .x = call.x.data(),
                .scale = call.scale.data(),
                .shift = call.shift.data(),
                .mean = call.running_mean.data(),
                .spread = call.running_var.data(),
                .spread_is_variance = true,
                .epsilon = call.epsilon,
                .addend = call.addend.data(),
                .ceiling = static_cast<Wide<T>>(call.ceiling),
                .y = call.y.data()});
}

#define HALOGRAD_INSTANTIATE(T)                                                                     \
  template void batch_norm_forward_training<T>(const ExecutionSpace&, const BatchNormTraining<T>&); \
  template void batch_norm_forward_inference<T>(const ExecutionSpace&, const BatchNormInference<T>&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
