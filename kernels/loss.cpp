#include "kernels/loss.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

template <class T>
struct SoftmaxRow {
  T* values;
  int width;
  KOKKOS_FUNCTION void operator()(const long row) const {
    T* const x = values + row * width;
    T largest = x[0];  // subtracted, so that no exponential overflows
    for (int k = 1; k < width; ++k) largest = x[k] > largest ? x[k] : largest;
    double sum = 0;
    for (int k = 0; k < width; ++k) sum += static_cast<double>(math::exp(x[k] - largest));
    for (int k = 0; k < width; ++k) x[k] = static_cast<T>(static_cast<double>(math::exp(x[k] - largest)) / sum);
  }
};

/// One row of logits: its loss, whether its largest logit is the label's, and, where wanted, its gradient.
template <class T>
struct CrossEntropyRow {
  const T* logits;
  const std::int32_t* labels;
  T* gradient;  // null: not wanted
  int classes;
  double scale;
  double smoothing;
  double bad_label_loss;

  using value_type = double[];
  static constexpr unsigned value_count = LossMemory::count;
  KOKKOS_FUNCTION void operator()(const long row, double* const sums) const {
    const T* const from = logits + row * classes;
    const std::int32_t label = labels[row];
    int best = 0;
    for (int k = 1; k < classes; ++k) {
      if (from[k] > from[best]) best = k;
    }
    const T largest = from[best];  // subtracted, so that no exponential overflows
    double sum = 0, distances = 0;
    for (int k = 0; k < classes; ++k) {
      sum += static_cast<double>(math::exp(from[k] - largest));
      distances += static_cast<double>(largest) - static_cast<double>(from[k]);
    }
    const bool inside = label >= 0 && label < classes;
    const double distance = static_cast<double>(largest) - static_cast<double>(from[inside ? label : best]);
    // One term at a time: without smoothing the loss is exactly that of the label.
    const double target = smoothing > 0 ? (1 - smoothing) * distance + smoothing * distances / classes : distance;
    const double row_loss = inside ? math::log(sum) + target : bad_label_loss;
    sums[0] += row_loss;
    sums[1] += inside && best == label && row_loss == row_loss ? 1 : 0;
    if (gradient == nullptr) return;
    T* const to = gradient + row * classes;
    const double share = scale / sum, least = scale * smoothing / classes, label_share = scale * (1 - smoothing);
    for (int k = 0; k < classes; ++k) {
      const double softmax_share = static_cast<double>(math::exp(from[k] - largest)) * share;
      to[k] = static_cast<T>((k == label ? softmax_share - label_share : softmax_share) - least);
    }
  }
};

/// One logit.
template <class T>
struct BinaryRow {
  const T* logits;
  const std::int32_t* labels;
  T* gradient;  // null: not wanted
  double scale;
  double smoothing;
  double bad_label_loss;

  using value_type = double[];
  static constexpr unsigned value_count = LossMemory::count;
  KOKKOS_FUNCTION void operator()(const long row, double* const sums) const {
    const double x = static_cast<double>(logits[row]);
    const std::int32_t label = labels[row];
    const bool actual = label == 1, predicted = x > 0;
    const double tail = math::exp(x < 0 ? x : -x);  // of -|x|; a NaN stays one
    const double target = actual ? 1 - smoothing / 2 : smoothing / 2;
    const double row_loss = (x < 0 ? 0 : x) - x * target + math::log1p(tail);
    sums[0] += label == 0 || label == 1 ? row_loss : bad_label_loss;
    sums[1] += actual == predicted && row_loss == row_loss ? 1 : 0;
    sums[2] += actual && predicted ? 1 : 0;
    sums[3] += actual || predicted ? 1 : 0;
    if (gradient == nullptr) return;
    const double sigmoid = (x < 0 ? tail : 1) / (1 + tail);
    gradient[row] = static_cast<T>(scale * (sigmoid - target));
  }
};

template <class T>
struct SquaredRow {
  const T* x;
  const std::int32_t* labels;
  T* gradient;  // null: not wanted
  int width;
  double scale;

  using value_type = double[];
  static constexpr unsigned value_count = LossMemory::count;
  KOKKOS_FUNCTION void operator()(const long row, double* const sums) const {
    const T* const from = x + row * width;
    const std::int32_t label = labels[row];
    int best = 0;
    double sum = 0;
    for (int k = 0; k < width; ++k) {
      if (from[k] > from[best]) best = k;
      const double error = static_cast<double>(from[k]) - (width == 1 ? label : (k == label ? 1 : 0));
      sum += error * error;
      if (gradient != nullptr) gradient[row * width + k] = static_cast<T>(2 * scale / width * error);
    }
    sums[0] += sum / width;
    sums[1] += (width == 1 ? sum < 0.25 : best == label && sum == sum) ? 1 : 0;
  }
};

/// One row against real numbers.
template <class T>
struct SquaredTargetRow {
  const T* x;
  const T* targets;
  T* gradient;  // null: not wanted
  int width;
  double scale;

  using value_type = double[];
  static constexpr unsigned value_count = LossMemory::count;
  KOKKOS_FUNCTION void operator()(const long row, double* const sums) const {
    double sum = 0;
    for (long k = row * width; k < (row + 1) * width; ++k) {
      const double error = static_cast<double>(x[k]) - static_cast<double>(targets[k]);
      sum += error * error;
      if (gradient != nullptr) gradient[k] = static_cast<T>(2 * scale / width * error);
    }
    sums[0] += sum / width;
  }
};

/// `targets`: how many there are, with `targets_per_row` to each row.
template <class T>
void require_loss_buffers(const char* kernel, const LossBatch<T>& batch, std::size_t targets, int targets_per_row) {
  HALOGRAD_REQUIRE(batch.rows >= 0 && batch.width >= 1, kernel, ": ", batch.rows, " rows of ", batch.width, " values");
  const auto rows = static_cast<std::size_t>(batch.rows);
  const std::size_t values = rows * static_cast<std::size_t>(batch.width);
  const std::size_t outputs = batch.outputs.extent(0), gradient = batch.gradient.extent(0);
  HALOGRAD_REQUIRE(outputs >= values && (gradient == 0 || gradient >= values), kernel, ": ", rows, " rows of ",
                   batch.width, " values need ", values, "; the outputs have ", outputs, ", the gradient ", gradient);
  HALOGRAD_REQUIRE(targets >= rows * static_cast<std::size_t>(targets_per_row), kernel, ": ", rows, " rows of ",
                   targets_per_row, " labels or targets, but there are ", targets);
}

/// Null where it is not wanted.
template <class T>
T* gradient_or_null(const LossBatch<T>& batch) {
  return batch.gradient.extent(0) > 0 ? batch.gradient.data() : nullptr;
}

}  // namespace

LossSum LossMemory::read(const ExecutionSpace& exec) const {
  std::array<double, count> sums{};
  Kokkos::deep_copy(exec, HostVector<double>(sums.data(), sums.size()), sums_);
  exec.fence();
  return {sums[0], std::lround(sums[1]), std::lround(sums[2]), std::lround(sums[3])};
}

template <class T>
void softmax(const ExecutionSpace& exec, long rows, int width, Vector<T> values) {
  const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  HALOGRAD_REQUIRE(rows >= 0 && width >= 1 && values.extent(0) >= count, "softmax: ", rows, " rows of ", width,
                   " values, but there are ", values.extent(0));
  Kokkos::parallel_for(label("halograd::softmax"), FlatRange(exec, 0, rows), SoftmaxRow<T>{values.data(), width});
}

template <class T>
void softmax_cross_entropy(const ExecutionSpace& exec, const LossBatch<T>& batch, double smoothing,
                           const LossMemory& memory) {
  require_loss_buffers("softmax_cross_entropy", batch, batch.labels.extent(0), 1);
  Kokkos::parallel_reduce(label("halograd::softmax_cross_entropy"), FlatRange(exec, 0, batch.rows),
                          CrossEntropyRow<T>{.logits = batch.outputs.data(),
                                             .labels = batch.labels.data(),
                                             .gradient = gradient_or_null(batch),
                                             .classes = batch.width,
                                             .scale = batch.scale,
                                             .smoothing = smoothing,
                                             .bad_label_loss = std::numeric_limits<double>::quiet_NaN()},
                          memory.sums());
}

template <class T>
void binary_cross_entropy(const ExecutionSpace& exec, const LossBatch<T>& batch, double smoothing,
                          const LossMemory& memory) {
  require_loss_buffers("binary_cross_entropy", batch, batch.labels.extent(0), 1);
  HALOGRAD_REQUIRE(batch.width == 1, "binary_cross_entropy: rows of ", batch.width, " values, one logit expected");
  Kokkos::parallel_reduce(label("halograd::binary_cross_entropy"), FlatRange(exec, 0, batch.rows),
                          BinaryRow<T>{.logits = batch.outputs.data(),
                                       .labels = batch.labels.data(),
                                       .gradient = gradient_or_null(batch),
                                       .scale = batch.scale,
                                       .smoothing = smoothing,
                                       .bad_label_loss = std::numeric_limits<double>::quiet_NaN()},
                          memory.sums());
}

template <class T>
void mean_squared_error(const ExecutionSpace& exec, const LossBatch<T>& batch, const LossMemory& memory) {
  require_loss_buffers("mean_squared_error", batch, batch.labels.extent(0), 1);
  Kokkos::parallel_reduce(label("halograd::mean_squared_error"), FlatRange(exec, 0, batch.rows),
                          SquaredRow<T>{.x = batch.outputs.data(),
                                        .labels = batch.labels.data(),
                                        .gradient = gradient_or_null(batch),
                                        .width = batch.width,
                                        .scale = batch.scale},
                          memory.sums());
}

template <class T>
void mean_squared_error(const ExecutionSpace& exec, const LossBatch<T>& batch, Vector<const T> targets,
                        const LossMemory& memory) {
  require_loss_buffers("mean_squared_error", batch, targets.extent(0), batch.width);
  Kokkos::parallel_reduce(label("halograd::mean_squared_error"), FlatRange(exec, 0, batch.rows),
                          SquaredTargetRow<T>{.x = batch.outputs.data(),
                                              .targets = targets.data(),
                                              .gradient = gradient_or_null(batch),
                                              .width = batch.width,
                                              .scale = batch.scale},
                          memory.sums());
}

#define HALOGRAD_INSTANTIATE(T)                                                                                  \
  template void softmax<T>(const ExecutionSpace&, long, int, Vector<T>);                                         \
  template void softmax_cross_entropy<T>(const ExecutionSpace&, const LossBatch<T>&, double, const LossMemory&); \
  template void binary_cross_entropy<T>(const ExecutionSpace&, const LossBatch<T>&, double, const LossMemory&);  \
  template void mean_squared_error<T>(const ExecutionSpace&, const LossBatch<T>&, const LossMemory&);            \
  template void mean_squared_error<T>(const ExecutionSpace&, const LossBatch<T>&, Vector<const T>, const LossMemory&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
