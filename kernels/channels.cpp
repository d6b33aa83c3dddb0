#include "kernels/channels.hpp"

#include "kernels/chunks.hpp"
#include "kernels/column_sums.hpp"
#include "kernels/error.hpp"
#include "kernels/window_geometry.hpp"

namespace halograd {

namespace {

/// Rows, or on accelerators single values of them, as work items: body(row, first channel, count).
template <class Body>
struct RowItem {
  Body body;
  int channels;
  KOKKOS_FUNCTION void operator()(const long item) const {
    if constexpr (runs_on_host) {
      body(item, 0, channels);
    } else {
      const Divided at(item, channels);
      body(at.quotient, at.rest, 1);
    }
  }
};

template <class Body>
void for_each_row(const ExecutionSpace& exec, const char* name, long rows, int channels, const Body& body) {
  Kokkos::parallel_for(label(name), FlatRange(exec, 0, runs_on_host ? rows : rows * channels),
                       RowItem<Body>{body, channels});
}

template <class T, bool Add>
struct CopyChannels {
  const T* x;
  T* y;
  ChannelRange from, to;
  KOKKOS_FUNCTION void operator()(long row, int channel, int count) const {
    const T* const source = x + row * from.channels + from.first + channel;
    T* const target = y + row * to.channels + to.first + channel;
    HALOGRAD_IVDEP
    for (int c = 0; c < count; ++c) {
      const Wide<T> value = source[c];
      target[c] = Add ? target[c] + value : value;
    }
  }
};

template <class T>
struct BroadcastChannels {
  const Wide<T>* bias;
  T* y;
  int channels;
  KOKKOS_FUNCTION void operator()(long row, int channel, int count) const {
    T* const target = y + row * channels;
    HALOGRAD_IVDEP
    for (int c = channel; c < channel + count; ++c) target[c] = bias[c];
  }
};

template <class T>
struct ValueTerm {
  static constexpr int sums = 1;
  const T* x;
  int channels;
  KOKKOS_FORCEINLINE_FUNCTION void add_row(long row, int first, int count, double* totals, int /*pitch*/) const {
    const T* const values = x + row * channels + first;
    HALOGRAD_IVDEP
    for (int c = 0; c < count; ++c) totals[c] += static_cast<double>(values[c]);
  }
};

template <class T>
struct ChannelSum : BlockSums<ValueTerm<T>::sums> {
  Wide<T>* sum;
  KOKKOS_FUNCTION void finish(long channel, const typename ChannelSum::Gathered& gathered) const {
    sum[channel] = static_cast<Wide<T>>(gathered.sums[0]);
  }
};

/// Where the copies of a pixel lie.
struct Copies {
  int in[3], out[3], factor[3], before[3];
  explicit Copies(const UpsampleShape& shape) {
    const std::array<int, 3> extents = shape.out_extent();
    for (int axis = 0; axis < 3; ++axis) {
      in[axis] = shape.extent[axis];
      out[axis] = extents[axis];
      factor[axis] = shape.factor[axis];
      before[axis] = shape.before[axis];
    }
  }
  [[nodiscard]] KOKKOS_FUNCTION IndexRange along(int axis, int i) const {
    const int first = i * factor[axis] - before[axis], end = first + factor[axis];
    return {first > 0 ? first : 0, end < out[axis] ? end : out[axis]};
  }
  /// Calls body(pixel of y, number of neighbours along its row) for the rows of copies of pixel `row` of x.
  template <class Body>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_row_of(long row, const Body& body) const {
    const Divided column(row, in[2]), line(column.quotient, in[1]), plane(line.quotient, in[0]);
    const IndexRange depth = along(0, plane.rest), height = along(1, line.rest), width = along(2, column.rest);
    for (int t = depth.begin; t < depth.end; ++t) {
      for (int r = height.begin; r < height.end; ++r) {
        const long first = ((plane.quotient * out[0] + t) * out[1] + r) * out[2] + width.begin;
        body(first, width.end - width.begin);
      }
    }
  }
};

template <class T>
struct Upsample {
  Copies copies;
  int channels;
  const T* x;
  T* y;
  KOKKOS_FUNCTION void operator()(long row, int channel, int count) const {
    const T* const from = x + row * channels + channel;
    copies.for_each_row_of(row, [&](long pixel, int copies_in_row) {
      T* to = y + pixel * channels + channel;
      for (int s = 0; s < copies_in_row; ++s, to += channels) {
        HALOGRAD_IVDEP
        for (int c = 0; c < count; ++c) to[c] = Wide<T>(from[c]);
      }
    });
  }
};

template <class T>
struct UpsampleGradient {
  Copies copies;
  int channels;
  const T* dy;
  T* dx;
  bool accumulate;
  KOKKOS_FUNCTION void operator()(long row, int channel, int count) const {
    T* const to = dx + row * channels + channel;
    if constexpr (std::is_same_v<Wide<T>, T>) {
      sum_copies(row, channel, count, to);
    } else {  // rounds the sums alone
      constexpr int width = 128;
      Wide<T> sums[width];
      for (int begin = 0; begin < count; begin += width) {
        const int here = count - begin < width ? count - begin : width;
        for (int c = 0; accumulate && c < here; ++c) sums[c] = to[begin + c];
        sum_copies(row, channel + begin, here, sums);
        for (int c = 0; c < here; ++c) to[begin + c] = sums[c];
      }
    }
  }

  KOKKOS_FUNCTION void sum_copies(long row, int channel, int count, Wide<T>* to) const {
    bool add = accumulate;
    copies.for_each_row_of(row, [&](long pixel, int copies_in_row) {
      const T* from = dy + pixel * channels + channel;
      for (int s = 0; s < copies_in_row; ++s, from += channels) {
        HALOGRAD_IVDEP
        for (int c = 0; c < count; ++c) to[c] = add ? to[c] + from[c] : Wide<T>(from[c]);
        add = true;
      }
    });
  }
};

void require_values(const char* kernel, const char* what, std::size_t found, long needed) {
  HALOGRAD_REQUIRE(needed >= 0 && found >= static_cast<std::size_t>(needed), kernel, ": ", what, " has ", found,
                   " values, ", needed, " are needed");
}

long pixels(int batch, const std::array<int, 3>& extent) {
  return static_cast<long>(batch) * extent[0] * extent[1] * extent[2];
}

}  // namespace

template <class T>
void copy_channels(const ExecutionSpace& exec, long rows, const ChannelRange& from, Vector<const T> x,
                   const ChannelRange& to, Vector<T> y, bool accumulate) {
  HALOGRAD_REQUIRE(from.count == to.count && from.first >= 0 && to.first >= 0 &&
                       from.first + from.count <= from.channels && to.first + to.count <= to.channels,
                   "copy_channels: ", from.count, " channels from ", from.first, " of ", from.channels,
                   " do not go to ", to.count, " from ", to.first, " of ", to.channels);
  require_values("copy_channels", "x", x.extent(0), rows * from.channels);
  require_values("copy_channels", "y", y.extent(0), rows * to.channels);
  if (accumulate) {
    for_each_row(exec, "halograd::add_channels", rows, from.count, CopyChannels<T, true>{x.data(), y.data(), from, to});
  } else {
    for_each_row(exec, "halograd::copy_channels", rows, from.count,
                 CopyChannels<T, false>{x.data(), y.data(), from, to});
  }
}

template <class T>
void broadcast_channels(const ExecutionSpace& exec, long rows, int channels, Vector<const Wide<T>> bias, Vector<T> y) {
  require_values("broadcast_channels", "bias", bias.extent(0), channels);
  require_values("broadcast_channels", "y", y.extent(0), rows * channels);
  for_each_row(exec, "halograd::broadcast_channels", rows, channels,
               BroadcastChannels<T>{bias.data(), y.data(), channels});
}

std::size_t sum_channels_workspace(long rows, int channels) {
  return column_sums_workspace(rows, channels, ValueTerm<float>::sums);
}

template <class T>
void sum_channels(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x, Vector<Wide<T>> sum,
                  Vector<double> workspace) {
  require_values("sum_channels", "x", x.extent(0), rows * channels);
  require_values("sum_channels", "sum", sum.extent(0), channels);
  column_sums(exec, "halograd::sum_channels", rows, channels, ValueTerm<T>{x.data(), channels}, workspace);
  join_blocks(exec, "halograd::sum_channels_blocks", channels, column_blocks(rows),
              ChannelSum<T>{{workspace.data(), channels}, sum.data()});
}

template <class T>
void upsample_forward(const ExecutionSpace& exec, const UpsampleShape& shape, Vector<const T> x, Vector<T> y) {
  require_values("upsample_forward", "x", x.extent(0), pixels(shape.batch, shape.extent) * shape.channels);
  require_values("upsample_forward", "y", y.extent(0), pixels(shape.batch, shape.out_extent()) * shape.channels);
  for_each_row(exec, "halograd::upsample_forward", pixels(shape.batch, shape.extent), shape.channels,
               Upsample<T>{Copies(shape), shape.channels, x.data(), y.data()});
}

template <class T>
void upsample_backward(const ExecutionSpace& exec, const UpsampleShape& shape, Vector<const T> dy, Vector<T> dx,
                       bool accumulate) {
  require_values("upsample_backward", "dy", dy.extent(0), pixels(shape.batch, shape.out_extent()) * shape.channels);
  require_values("upsample_backward", "dx", dx.extent(0), pixels(shape.batch, shape.extent) * shape.channels);
  for_each_row(exec, "halograd::upsample_backward", pixels(shape.batch, shape.extent), shape.channels,
               UpsampleGradient<T>{Copies(shape), shape.channels, dy.data(), dx.data(), accumulate});
}

#define HALOGRAD_INSTANTIATE(T)                                                                                      \
  template void copy_channels<T>(const ExecutionSpace&, long, const ChannelRange&, Vector<const T>,                  \
                                 const ChannelRange&, Vector<T>, bool);                                              \
  template void broadcast_channels<T>(const ExecutionSpace&, long, int, Vector<const Wide<T>>, Vector<T>);           \
  template void sum_channels<T>(const ExecutionSpace&, long, int, Vector<const T>, Vector<Wide<T>>, Vector<double>); \
  template void upsample_forward<T>(const ExecutionSpace&, const UpsampleShape&, Vector<const T>, Vector<T>);        \
  template void upsample_backward<T>(const ExecutionSpace&, const UpsampleShape&, Vector<const T>, Vector<T>, bool);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
