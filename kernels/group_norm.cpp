#include "kernels/group_norm.hpp"

#include <algorithm>

#include "kernels/column_sums.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

/// Work items: blocks of a sample's rows, on accelerators each for one group.
struct Blocks {
  GroupNormShape shape;
  int width;  ///< channels of a group
  long block_rows, blocks;

  explicit Blocks(const GroupNormShape& s) : shape(s), width(s.channels / s.groups) {
    constexpr long least_values = 4096;
    constexpr long most = 256;
    block_rows = std::max({1L, least_values / s.channels, (s.rows + most - 1) / most});
    blocks = (s.rows + block_rows - 1) / block_rows;
  }
  [[nodiscard]] long items() const { return shape.samples * blocks * (runs_on_host ? 1 : shape.groups); }
};

/// The rows and groups of a work item.
struct Block {
  long sample, number, first_row, last_row;
  int first_group, last_group;
  KOKKOS_FUNCTION Block(const Blocks& all, long item) {
    const long block = runs_on_host ? item : item / all.shape.groups;
    first_group = runs_on_host ? 0 : static_cast<int>(item % all.shape.groups);
    last_group = runs_on_host ? all.shape.groups : first_group + 1;
    sample = block / all.blocks;
    number = block % all.blocks;
    const long end = (number + 1) * all.block_rows;
    first_row = sample * all.shape.rows + number * all.block_rows;
    last_row = sample * all.shape.rows + (end < all.shape.rows ? end : all.shape.rows);
  }
};

/// Two sums of each group over a block's values, left in the workspace (samples, blocks, groups, 2).
template <class Terms>
struct GroupSums {
  Blocks all;
  Terms terms;
  double* workspace;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Block block(all, item);
    for (int g = block.first_group; g < block.last_group; ++g) {
      double first = 0, second = 0;
      for (long row = block.first_row; row < block.last_row; ++row) {
        const long at = row * all.shape.channels + static_cast<long>(g) * all.width;
        terms.add(block.sample, g, at, all.width, first, second);
      }
      double* const sums = workspace + 2 * ((block.sample * all.blocks + block.number) * all.shape.groups + g);
      sums[0] = first;
      sums[1] = second;
    }
  }
};

/// x - the group's first value and its square: without a shift the variance of data far from zero cancels.
template <class T>
struct Moments {
  const T* x;
  long rows;
  int channels, width;
  KOKKOS_FUNCTION double shift(long sample, int group) const {
    return static_cast<double>(x[sample * rows * channels + static_cast<long>(group) * width]);
  }
  KOKKOS_FUNCTION void add(long sample, int group, long at, int count, double& sum, double& squares) const {
    const double centre = shift(sample, group);
    for (int c = 0; c < count; ++c) {
      const double value = static_cast<double>(x[at + c]) - centre;
      sum += value;
      squares += value * value;
    }
  }
};

/// scale dy and scale dy (x - mean).
template <class T>
struct GradientMoments {
  const T* x;
  const T* dy;
  const Wide<T>* scale;
  const Wide<T>* mean;
  int groups, width;
  KOKKOS_FUNCTION void add(long sample, int group, long at, int count, double& sum, double& products) const {
    const double centre = static_cast<double>(mean[sample * groups + group]);
    const Wide<T>* const factors = scale + static_cast<long>(group) * width;
    for (int c = 0; c < count; ++c) {
      const double gradient = static_cast<double>(factors[c]) * static_cast<double>(dy[at + c]);
      sum += gradient;
      products += gradient * (static_cast<double>(x[at + c]) - centre);
    }
  }
};

/// dy and dy (x - mean) inverse_std, for each channel over all samples.
template <class T>
struct ParameterTerms {
  static constexpr int sums = 2;
  const T* x;
  const T* dy;
  const Wide<T>* mean;
  const Wide<T>* inverse_std;
  long rows;
  int channels, groups, width;
  KOKKOS_FORCEINLINE_FUNCTION void add_row(long row, int first, int count, double* totals, int pitch) const {
    const long first_group = row / rows * groups;
    const T* const values = x + row * channels + first;
    const T* const gradients = dy + row * channels + first;
    double* const products = totals + pitch;
    for (int c = 0; c < count;) {
      const int group = (first + c) / width, left = (group + 1) * width - first;
      const int end = left < count ? left : count;
      const double centre = static_cast<double>(mean[first_group + group]);
      const double spread = static_cast<double>(inverse_std[first_group + group]);
      HALOGRAD_IVDEP
      for (int i = c; i < end; ++i) {
        const double gradient = static_cast<double>(gradients[i]);
        totals[i] += gradient;
        products[i] += gradient * (static_cast<double>(values[i]) - centre) * spread;
      }
      c = end;
    }
  }
};

template <class T>
struct ParameterSums : BlockSums<ParameterTerms<T>::sums> {
  Wide<T>* dshift;
  Wide<T>* dscale;
  KOKKOS_FUNCTION void finish(long channel, const typename ParameterSums::Gathered& gathered) const {
    dshift[channel] = static_cast<Wide<T>>(gathered.sums[0]);
    dscale[channel] = static_cast<Wide<T>>(gathered.sums[1]);
  }
};

KOKKOS_INLINE_FUNCTION double group_sum(const double* workspace, const Blocks& all, long statistic, int which) {
  const long sample = statistic / all.shape.groups, group = statistic % all.shape.groups;
  double sum = 0;
  for (long block = 0; block < all.blocks; ++block) {
    sum += workspace[2 * ((sample * all.blocks + block) * all.shape.groups + group) + which];
  }
  return sum;
}

template <class T>
struct Normalise {
  Blocks all;
  const T* x;
  const Wide<T>* scale;
  const Wide<T>* shift;
  const Wide<T>* mean;
  const Wide<T>* inverse_std;
  T* y;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Block block(all, item);
    for (long row = block.first_row; row < block.last_row; ++row) {
      for (int g = block.first_group; g < block.last_group; ++g) {
        const long statistic = block.sample * all.shape.groups + g;
        const Wide<T> centre = mean[statistic], spread = inverse_std[statistic];
        const int first = g * all.width;
        const long at = row * all.shape.channels;
        HALOGRAD_IVDEP
        for (int c = first; c < first + all.width; ++c) {
          y[at + c] = (x[at + c] - centre) * (scale[c] * spread) + shift[c];
        }
      }
    }
  }
};

/// dx = inverse_std (scale dy - mean(scale dy) - (x - mean) mean(scale dy (x - mean)) inverse_std^2) with these means
/// (samples, groups, 2), the second with its factor.
template <class T, bool Add>
struct InputGradient {
  Blocks all;
  const T* x;
  const T* dy;
  const Wide<T>* scale;
  const Wide<T>* mean;
  const Wide<T>* inverse_std;
  const double* means;
  T* dx;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const Block block(all, item);
    for (long row = block.first_row; row < block.last_row; ++row) {
      for (int g = block.first_group; g < block.last_group; ++g) {
        const long statistic = block.sample * all.shape.groups + g;
        const Wide<T> centre = mean[statistic], spread = inverse_std[statistic];
        const auto level = static_cast<Wide<T>>(means[2 * statistic]);
        const auto tilt = static_cast<Wide<T>>(means[2 * statistic + 1]);
        const int first = g * all.width;
        const long at = row * all.shape.channels;
        HALOGRAD_IVDEP
        for (int c = first; c < first + all.width; ++c) {
          const Wide<T> gradient = spread * (scale[c] * dy[at + c] - level - (x[at + c] - centre) * tilt);
          dx[at + c] = Add ? dx[at + c] + gradient : gradient;
        }
      }
    }
  }
};

/// What is known of each group of each sample in the end, behind the sums of the blocks: (samples, groups, 2).
std::size_t numbers_of_all(const GroupNormShape& shape) {
  return 2 * static_cast<std::size_t>(shape.statistics());
}
Vector<double> behind_blocks(const Vector<double>& workspace, const Blocks& all) {
  const std::size_t count = numbers_of_all(all.shape);
  return slice(workspace, count * static_cast<std::size_t>(all.blocks), count);
}

void require_shape(const char* kernel, const GroupNormShape& shape, std::size_t x, std::size_t y,
                   std::size_t workspace) {
  HALOGRAD_REQUIRE(shape.samples >= 0 && shape.rows >= 1 && shape.channels >= 1, kernel, ": ", shape.samples,
                   " samples of ", shape.rows, " rows of ", shape.channels, " channels");
  HALOGRAD_REQUIRE(shape.groups >= 1 && shape.channels % shape.groups == 0, kernel, ": ", shape.groups,
                   " groups do not divide ", shape.channels, " channels");
  const auto values = static_cast<std::size_t>(shape.samples * shape.rows * shape.channels);
  HALOGRAD_REQUIRE(x >= values && y >= values, kernel, ": ", values, " values are needed, the buffers have ", x,
                   " and ", y);
  HALOGRAD_REQUIRE(workspace >= group_norm_workspace(shape), kernel, ": the workspace has ", workspace, " doubles, ",
                   group_norm_workspace(shape), " are needed");
}

}  // namespace

std::size_t group_norm_workspace(const GroupNormShape& shape) {
  const auto of_blocks = 2 * static_cast<std::size_t>(shape.statistics() * Blocks(shape).blocks);
  return std::max(of_blocks + numbers_of_all(shape),
                  column_sums_workspace(shape.samples * shape.rows, shape.channels, 2));
}

template <class T>
void group_norm_forward(const ExecutionSpace& exec, const GroupNormForward<T>& call) {
  const GroupNormShape& shape = call.shape;
  const double epsilon = call.epsilon;
  const Vector<Wide<T>> saved_mean = call.saved_mean, saved_inverse_std = call.saved_inverse_std;
  require_shape("group_norm_forward", shape, call.x.extent(0), call.y.extent(0), call.workspace.extent(0));
  const Blocks all(shape);
  const Moments<T> moments{call.x.data(), shape.rows, shape.channels, all.width};
  const double* sums = call.workspace.data();
  Kokkos::parallel_for(label("halograd::group_norm_moments"), FlatRange(exec, 0, all.items()),
                       GroupSums<Moments<T>>{all, moments, call.workspace.data()});
  const bool alone = !call.all.elsewhere();
  const Vector<double> joined = behind_blocks(call.workspace, all);
  Kokkos::parallel_for(
      label("halograd::group_norm_statistics"), FlatRange(exec, 0, shape.statistics()), KOKKOS_LAMBDA(const long i) {
        const double count = static_cast<double>(all.shape.rows) * all.width;
        const double offset = group_sum(sums, all, i, 0) / count;
        const double variance = group_sum(sums, all, i, 1) / count - offset * offset;
        const double mean = moments.shift(i / all.shape.groups, static_cast<int>(i % all.shape.groups)) + offset;
        if (alone) {
          saved_mean(i) = static_cast<Wide<T>>(mean);
          saved_inverse_std(i) = static_cast<Wide<T>>(1 / math::sqrt((variance < 0 ? 0 : variance) + epsilon));
        } else {  // the sums of x and x^2, which can be added to those of other ranks
          joined(2 * i) = count * mean;
          joined(2 * i + 1) = count * (variance + mean * mean);
        }
      });
  if (!alone) {
    call.all.add(exec, joined);
    const double count = static_cast<double>(call.all.rows) * all.width;
    Kokkos::parallel_for(
        label("halograd::group_norm_statistics_of_ranks"), FlatRange(exec, 0, shape.statistics()),
        KOKKOS_LAMBDA(const long i) {
          const double mean = joined(2 * i) / count, variance = joined(2 * i + 1) / count - mean * mean;
          saved_mean(i) = static_cast<Wide<T>>(mean);
          saved_inverse_std(i) = static_cast<Wide<T>>(1 / math::sqrt((variance < 0 ? 0 : variance) + epsilon));
        });
  }
  Kokkos::parallel_for(label("halograd::group_norm_forward"), FlatRange(exec, 0, all.items()),
                       Normalise<T>{all, call.x.data(), call.scale.data(), call.shift.data(), saved_mean.data(),
                                    saved_inverse_std.data(), call.y.data()});
}

template <class T>
void group_norm_backward(const ExecutionSpace& exec, const GroupNormBackward<T>& call) {
  const GroupNormShape& shape = call.shape;
  const Vector<const Wide<T>> saved_inverse_std = call.saved_inverse_std;
  const Vector<T> dx = call.dx;
  require_shape("group_norm_backward", shape, call.x.extent(0), call.dy.extent(0), call.workspace.extent(0));
  const Blocks all(shape);
  const int channels = shape.channels;
  const long rows = shape.samples * shape.rows;
  double* sums = call.workspace.data();
  column_sums(exec, "halograd::group_norm_parameters", rows, channels,
              ParameterTerms<T>{call.x.data(), call.dy.data(), call.saved_mean.data(), saved_inverse_std.data(),
                                shape.rows, channels, shape.groups, all.width},
              call.workspace);
  join_blocks(exec, "halograd::group_norm_parameter_blocks", channels, column_blocks(rows),
              ParameterSums<T>{{sums, channels}, call.dshift.data(), call.dscale.data()});
  if (dx.extent(0) == 0) return;
  HALOGRAD_REQUIRE(dx.extent(0) >= call.dy.extent(0), "group_norm_backward: dx has ", dx.extent(0), " values, dy ",
                   call.dy.extent(0));
  Kokkos::parallel_for(label("halograd::group_norm_gradients"), FlatRange(exec, 0, all.items()),
                       GroupSums<GradientMoments<T>>{all,
                                                     {call.x.data(), call.dy.data(), call.scale.data(),
                                                      call.saved_mean.data(), shape.groups, all.width},
                                                     sums});
  const Vector<double> means = behind_blocks(call.workspace, all);
  const double count = static_cast<double>(call.all.count(shape.rows)) * all.width;
  Kokkos::parallel_for(
      label("halograd::group_norm_means"), FlatRange(exec, 0, shape.statistics()), KOKKOS_LAMBDA(const long i) {
        const double spread = static_cast<double>(saved_inverse_std(i));
        const double sum = group_sum(sums, all, i, 0), products = group_sum(sums, all, i, 1);
        means(2 * i) = sum / count;
        means(2 * i + 1) = products * spread * spread / count;
      });
  if (call.all.elsewhere()) call.all.add(exec, means);
  const FlatRange items(exec, 0, all.items());
  if (call.accumulate) {
    Kokkos::parallel_for(
        label("halograd::group_norm_backward_add"), items,
        InputGradient<T, true>{all, call.x.data(), call.dy.data(), call.scale.data(), call.saved_mean.data(),
                               saved_inverse_std.data(), means.data(), dx.data()});
  } else {
    Kokkos::parallel_for(
        label("halograd::group_norm_backward"), items,
        InputGradient<T, false>{all, call.x.data(), call.dy.data(), call.scale.data(), call.saved_mean.data(),
                                saved_inverse_std.data(), means.data(), dx.data()});
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                           \
  template void group_norm_forward<T>(const ExecutionSpace&, const GroupNormForward<T>&); \
  template void group_norm_backward<T>(const ExecutionSpace&, const GroupNormBackward<T>&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
