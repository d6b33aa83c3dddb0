#include "kernels/batch_norm.hpp"

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

/// Values that one pass of an inner loop handles: channels, or several rows of few channels.
constexpr int strip_width = runs_on_host ? 128 : 1;
constexpr long most_blocks = 256;
/// Rows or values below which a block would not pay for its start.
constexpr long least_values = 8192;
constexpr long least_rows = 16;

/// Rows in blocks and channels in tiles; each pair is a work item. Depends on the shape alone, so that sums do not
/// depend on the number of threads.
struct Partition {
  long rows, block_rows, blocks;
  int channels, tile, tiles;

  KOKKOS_FUNCTION long items() const { return blocks * tiles; }
};

/// The part of one work item.
struct Strip {
  long block, begin, end;  ///< rows begin..end-1
  int channel, width;      ///< channels channel..channel+width-1
  int group;               ///< rows that an inner loop takes at once: 1 unless the strip is as wide as a row

  KOKKOS_FUNCTION Strip(const Partition& partition, long item)
      : block(item / partition.tiles),
        begin(block * partition.block_rows),
        end(begin + partition.block_rows < partition.rows ? begin + partition.block_rows : partition.rows),
        channel(static_cast<int>(item % partition.tiles) * partition.tile),
        width(partition.channels - channel < partition.tile ? partition.channels - channel : partition.tile),
        group(width == partition.channels ? strip_width / width : 1) {}

  /// The values that the inner loop takes from `row` on.
  KOKKOS_FUNCTION int count(long row) const {
    return (end - row < group ? static_cast<int>(end - row) : group) * width;
  }

  /// Writes a per-channel value once for each row of a group.
  template <class T, class Function>
  KOKKOS_FUNCTION void repeat(const Function& value, T* values) const {
    for (int c = 0; c < width; ++c) values[c] = value(channel + c);
    for (int i = width; i < group * width; ++i) values[i] = values[i - width];
  }
};

long rows_in_block(long rows, int channels) {
  const long wanted = runs_on_host ? (least_values + channels - 1) / channels : least_rows;
  const long needed = (rows + most_blocks - 1) / most_blocks;
  return wanted > needed ? wanted : needed;
}

Partition partition_of(long rows, int channels) {
  Partition partition{};
  partition.rows = rows;
  partition.channels = channels;
  partition.block_rows = rows_in_block(rows, channels);
  partition.blocks = (rows + partition.block_rows - 1) / partition.block_rows;
  partition.tiles = (channels + strip_width - 1) / strip_width;
  partition.tile = strip_width;
  if (partition.tiles > 1 && runs_on_host) {
    const int even = (channels + partition.tiles - 1) / partition.tiles;
    partition.tile = (even + 15) / 16 * 16;  // tiles of like width, whole vectors
    partition.tiles = (channels + partition.tile - 1) / partition.tile;
  }
  return partition;
}

/// Adds up a strip's two sums for each channel and leaves them in the workspace (blocks, 2, C).
template <class Terms>
KOKKOS_INLINE_FUNCTION void sum_strip(const Partition& partition, const Strip& strip, const Terms& terms,
                                      double* workspace) {
  double first[strip_width];
  double second[strip_width];
  for (int i = 0; i < strip.group * strip.width; ++i) first[i] = second[i] = 0;
  for (long row = strip.begin; row < strip.end; row += strip.group) {
    const int count = strip.count(row);
    const long offset = row * partition.channels + strip.channel;
    for (int i = 0; i < count; ++i) terms.add(offset + i, i, first[i], second[i]);
  }
  double* const sums = workspace + strip.block * 2 * partition.channels + strip.channel;
  for (int c = 0; c < strip.width; ++c) {
    double one = 0, two = 0;
    for (int i = c; i < strip.group * strip.width; i += strip.width) {
      one += first[i];
      two += second[i];
    }
    sums[c] = one;
    sums[partition.channels + c] = two;
  }
}

/// Sum of x - x[0] and of its square: without a shift the variance of data far from zero cancels.
template <class T>
struct MomentTerms {
  const T* x;
  double shift[strip_width];
  KOKKOS_FUNCTION void add(long offset, int i, double& sum, double& squares) const {
    const double value = static_cast<double>(x[offset]) - shift[i];
    sum += value;
    squares += value * value;
  }
};

template <class T>
struct SumMoments {
  Partition partition;
  const T* x;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    const T* const values = x;
    MomentTerms<T> terms{values, {}};
    strip.repeat([=](int c) { return static_cast<double>(values[c]); }, terms.shift);
    sum_strip(partition, strip, terms, workspace);
  }
};

/// Sum of dy and of dy (x - mean).
template <class T>
struct GradientTerms {
  const T* x;
  const T* dy;
  double mean[strip_width];
  KOKKOS_FUNCTION void add(long offset, int i, double& sum, double& products) const {
    const double gradient = static_cast<double>(dy[offset]);
    sum += gradient;
    products += gradient * (static_cast<double>(x[offset]) - mean[i]);
  }
};

template <class T>
struct SumGradients {
  Partition partition;
  const T* x;
  const T* dy;
  const T* mean;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    const T* const means = mean;
    GradientTerms<T> terms{x, dy, {}};
    strip.repeat([=](int c) { return static_cast<double>(means[c]); }, terms.mean);
    sum_strip(partition, strip, terms, workspace);
  }
};

KOKKOS_INLINE_FUNCTION double sum_over_blocks(const Partition& partition, const double* workspace, long entry) {
  double sum = 0;
  for (long block = 0; block < partition.blocks; ++block) sum += workspace[block * 2 * partition.channels + entry];
  return sum;
}

/// y = (x - mean) scale inverse_std + shift, where inverse_std is given or comes from a variance.
template <class T>
struct Normalise {
  Partition partition;
  const T* x;
  const T* scale;
  const T* shift;
  const T* mean;
  const T* spread;
  bool spread_is_variance;
  double epsilon;
  T* y;

  KOKKOS_FUNCTION T factor(int c) const {
    if (!spread_is_variance) return scale[c] * spread[c];
    return static_cast<T>(static_cast<double>(scale[c]) / math::sqrt(static_cast<double>(spread[c]) + epsilon));
  }

  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    T centre[strip_width], slope[strip_width], lift[strip_width];
    strip.repeat([this](int c) { return mean[c]; }, centre);
    strip.repeat([this](int c) { return factor(c); }, slope);
    strip.repeat([this](int c) { return shift[c]; }, lift);
    for (long row = strip.begin; row < strip.end; row += strip.group) {
      const int count = strip.count(row);
      const long offset = row * partition.channels + strip.channel;
      const T* const from = x + offset;
      T* const to = y + offset;
      HALOGRAD_IVDEP
      for (int i = 0; i < count; ++i) to[i] = (from[i] - centre[i]) * slope[i] + lift[i];
    }
  }
};

/// dx = scale inverse_std (dy - mean(dy) - (x - mean) mean(dy (x - mean)) inverse_std^2). The two means lie in the
/// workspace's first block.
template <class T, bool Add>
struct InputGradient {
  Partition partition;
  const T* x;
  const T* dy;
  const T* scale;
  const T* mean;
  const T* inverse_std;
  const double* workspace;
  T* dx;

  KOKKOS_FUNCTION void operator()(const long item) const {
    const Strip strip(partition, item);
    const int channels = partition.channels;
    T centre[strip_width], slope[strip_width], level[strip_width], tilt[strip_width];
    strip.repeat([this](int c) { return mean[c]; }, centre);
    strip.repeat([this](int c) { return scale[c] * inverse_std[c]; }, slope);
    strip.repeat([this](int c) { return static_cast<T>(workspace[c]); }, level);
    strip.repeat([this, channels](int c) { return static_cast<T>(workspace[channels + c]); }, tilt);
    for (long row = strip.begin; row < strip.end; row += strip.group) {
      const int count = strip.count(row);
      const long offset = row * channels + strip.channel;
      const T* const values = x + offset;
      const T* const from = dy + offset;
      T* const to = dx + offset;
      HALOGRAD_IVDEP
      for (int i = 0; i < count; ++i) {
        const T gradient = slope[i] * (from[i] - level[i] - (values[i] - centre[i]) * tilt[i]);
        to[i] = Add ? to[i] + gradient : gradient;
      }
    }
  }
};

void require_rows(const char* kernel, long rows, int channels, std::size_t x, std::size_t y) {
  HALOGRAD_REQUIRE(rows >= 0 && channels >= 1, kernel, ": ", rows, " rows of ", channels, " channels");
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(channels);
  HALOGRAD_REQUIRE(x >= values && y >= values, kernel, ": ", rows, " rows of ", channels, " channels need ", values,
                   " values, the buffers have ", x, " and ", y);
}

void require_batch(const char* kernel, long rows, int channels, std::size_t workspace) {
  HALOGRAD_REQUIRE(rows >= 2, kernel, ": a variance needs at least 2 rows (batch x height x width), there is ", rows);
  const std::size_t needed = batch_norm_workspace(rows, channels);
  HALOGRAD_REQUIRE(workspace >= needed, kernel, ": the workspace has ", workspace, " doubles, ", needed, " are needed");
}

}  // namespace

std::size_t batch_norm_workspace(long rows, int channels) {
  // A bound that grows with the rows, as the number of blocks itself does not: smaller batches fit as well.
  const long least = rows_in_block(1, channels);
  const long blocks = (rows + least - 1) / least;
  return 2 * static_cast<std::size_t>(blocks < most_blocks ? blocks : most_blocks) * static_cast<std::size_t>(channels);
}

template <class T>
void batch_norm_forward_training(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                 Vector<const T> scale, Vector<const T> shift, double epsilon, double momentum,
                                 Vector<T> running_mean, Vector<T> running_var, Vector<T> saved_mean,
                                 Vector<T> saved_inverse_std, Vector<T> y, Vector<double> workspace) {
  require_rows("batch_norm_forward_training", rows, channels, x.extent(0), y.extent(0));
  require_batch("batch_norm_forward_training", rows, channels, workspace.extent(0));
  const Partition partition = partition_of(rows, channels);
  const T* values = x.data();
  double* sums = workspace.data();
  Kokkos::parallel_for("halograd::batch_norm_moments", FlatRange(exec, 0, partition.items()),
                       SumMoments<T>{partition, values, sums});
  Kokkos::parallel_for(
      "halograd::batch_norm_statistics", FlatRange(exec, 0, channels), KOKKOS_LAMBDA(const long c) {
        const double count = static_cast<double>(rows);
        const double offset = sum_over_blocks(partition, sums, c) / count;
        const double squares = sum_over_blocks(partition, sums, channels + c) / count - offset * offset;
        const double variance = squares < 0 ? 0 : squares;
        const double mean = static_cast<double>(values[c]) + offset;
        saved_mean(c) = static_cast<T>(mean);
        saved_inverse_std(c) = static_cast<T>(1 / math::sqrt(variance + epsilon));
        const double unbiased = variance * count / (count - 1);
        running_mean(c) = static_cast<T>((1 - momentum) * static_cast<double>(running_mean(c)) + momentum * mean);
        running_var(c) = static_cast<T>((1 - momentum) * static_cast<double>(running_var(c)) + momentum * unbiased);
      });
  Kokkos::parallel_for("halograd::batch_norm_forward", FlatRange(exec, 0, partition.items()),
                       Normalise<T>{partition, values, scale.data(), shift.data(), saved_mean.data(),
                                    saved_inverse_std.data(), false, epsilon, y.data()});
}

template <class T>
void batch_norm_forward_inference(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x,
                                  Vector<const T> scale, Vector<const T> shift, double epsilon,
                                  Vector<const T> running_mean, Vector<const T> running_var, Vector<T> y) {
  require_rows("batch_norm_forward_inference", rows, channels, x.extent(0), y.extent(0));
  const Partition partition = partition_of(rows, channels);
  Kokkos::parallel_for("halograd::batch_norm_forward", FlatRange(exec, 0, partition.items()),
                       Normalise<T>{partition, x.data(), scale.data(), shift.data(), running_mean.data(),
                                    running_var.data(), true, epsilon, y.data()});
}

template <class T>
void batch_norm_backward(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x, Vector<const T> dy,
                         Vector<const T> scale, Vector<const T> saved_mean, Vector<const T> saved_inverse_std,
                         Vector<T> dx, Vector<T> dscale, Vector<T> dshift, bool accumulate, Vector<double> workspace) {
  require_rows("batch_norm_backward", rows, channels, x.extent(0), dy.extent(0));
  require_rows("batch_norm_backward", rows, channels, x.extent(0), dx.extent(0));
  require_batch("batch_norm_backward", rows, channels, workspace.extent(0));
  const Partition partition = partition_of(rows, channels);
  double* sums = workspace.data();
  Kokkos::parallel_for("halograd::batch_norm_gradients", FlatRange(exec, 0, partition.items()),
                       SumGradients<T>{partition, x.data(), dy.data(), saved_mean.data(), sums});
  Kokkos::parallel_for(
      "halograd::batch_norm_parameters", FlatRange(exec, 0, channels), KOKKOS_LAMBDA(const long c) {
        const double count = static_cast<double>(rows);
        const double inverse_std = static_cast<double>(saved_inverse_std(c));
        const double sum = sum_over_blocks(partition, sums, c);
        const double products = sum_over_blocks(partition, sums, channels + c);
        dshift(c) = static_cast<T>(sum);
        dscale(c) = static_cast<T>(products * inverse_std);
        sums[c] = sum / count;
        sums[channels + c] = products * inverse_std * inverse_std / count;
      });
  const FlatRange items(exec, 0, partition.items());
  if (accumulate) {
    Kokkos::parallel_for("halograd::batch_norm_backward_add", items,
                         InputGradient<T, true>{partition, x.data(), dy.data(), scale.data(), saved_mean.data(),
                                                saved_inverse_std.data(), sums, dx.data()});
  } else {
    Kokkos::parallel_for("halograd::batch_norm_backward", items,
                         InputGradient<T, false>{partition, x.data(), dy.data(), scale.data(), saved_mean.data(),
                                                 saved_inverse_std.data(), sums, dx.data()});
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                                        \
  template void batch_norm_forward_training<T>(const ExecutionSpace&, long, int, Vector<const T>, Vector<const T>,     \
                                               Vector<const T>, double, double, Vector<T>, Vector<T>, Vector<T>,       \
                                               Vector<T>, Vector<T>, Vector<double>);                                  \
  template void batch_norm_forward_inference<T>(const ExecutionSpace&, long, int, Vector<const T>, Vector<const T>,    \
                                                Vector<const T>, double, Vector<const T>, Vector<const T>, Vector<T>); \
  template void batch_norm_backward<T>(const ExecutionSpace&, long, int, Vector<const T>, Vector<const T>,             \
                                       Vector<const T>, Vector<const T>, Vector<const T>, Vector<T>, Vector<T>,        \
                                       Vector<T>, bool, Vector<double>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
