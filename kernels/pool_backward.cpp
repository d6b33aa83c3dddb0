#include "kernels/pool_windows.hpp"

namespace halograd {

namespace {

/// What the inputs of a window get of its dy: the one that won, all of it.
template <class T>
struct MaxShare {
  struct Output {
    T gradient;
    int winner;
    KOKKOS_FUNCTION T for_place(int place) const { return winner == place ? gradient : T(0); }
  };
  const T* dy;
  const std::uint8_t* which;
  KOKKOS_FUNCTION Output at(long output) const { return {dy[output], which[output]}; }
};

/// Each the same.
template <class T>
struct AvgShare {
  struct Output {
    T gradient;
    KOKKOS_FUNCTION T for_place(int) const { return gradient; }
  };
  const T* dy;
  T factor;
  KOKKOS_FUNCTION Output at(long output) const { return {dy[output] * factor}; }
};

/// Any windows: each input gathers from those that hold it.
template <class T, class Share>
struct GatherBackward {
  PoolShape shape;
  int out_height, out_width;
  Share share;
  T* dx;
  bool accumulate;

  KOKKOS_FUNCTION void operator()(int n, int row, int column, int channel, int count) const {
    const Reach rows = windows_over(row, shape.stride_h, shape.pad_h, shape.kernel_h, out_height);
    const Reach columns = windows_over(column, shape.stride_w, shape.pad_w, shape.kernel_w, out_width);
    T sum[channel_tile];
    for (int c = 0; c < count; ++c) sum[c] = T(0);
    for (int p = rows.begin; p < rows.end; ++p) {
      for (int q = columns.begin; q < columns.end; ++q) {
        const int place = (rows.start - p * shape.stride_h) * shape.kernel_w + (columns.start - q * shape.stride_w);
        const long output = pixel_offset(n, p, q, out_height, out_width, shape.channels) + channel;
        for (int c = 0; c < count; ++c) sum[c] += share.at(output + c).for_place(place);
      }
    }
    T* const to = dx + pixel_offset(n, row, column, shape.height, shape.width, shape.channels) + channel;
    if (accumulate) {
      for (int c = 0; c < count; ++c) to[c] += sum[c];
    } else {
      for (int c = 0; c < count; ++c) to[c] = sum[c];
    }
  }
};

/// Windows that do not overlap, on a host: each row of windows owns the input rows from its own to the next row's
/// start, and writes them in order.
template <class T, class Share, bool Add>
struct ScatterBackward {
  PoolShape shape;
  int out_height, out_width;
  Share share;
  T* dx;
  bool clear;  ///< the windows leave gaps, which must become zero

  KOKKOS_FUNCTION void operator()(const long item) const {
    const ScatterBackward local = *this;  // no store can reach this copy
    local.write_band(static_cast<int>(item / out_height), static_cast<int>(item % out_height));
  }

  KOKKOS_FUNCTION void write_band(int n, int p) const {
    const Reach rows = reach_of(p, shape.stride_h, shape.pad_h, shape.kernel_h, shape.height);
    if (clear) {
      const int first = p == 0 ? 0 : rows.start;
      const int next = p + 1 == out_height ? shape.height : rows.start + shape.stride_h;
      T* const begin = dx + pixel_offset(n, first, 0, shape.height, shape.width, shape.channels);
      T* const end = dx + pixel_offset(n, next, 0, shape.height, shape.width, shape.channels);
      for (T* value = begin; value < end; ++value) *value = T(0);
    }
    for (int q = 0; q < out_width; ++q) {
      const Reach columns = reach_of(q, shape.stride_w, shape.pad_w, shape.kernel_w, shape.width);
      const long output = pixel_offset(n, p, q, out_height, out_width, shape.channels);
      T* const to = dx + pixel_offset(n, rows.start + rows.begin, columns.start + columns.begin, shape.height,
                                      shape.width, shape.channels);
      if (shape.kernel_h == 2 && shape.kernel_w == 2 && rows.end - rows.begin == 2 &&
          columns.end - columns.begin == 2) {
        write_four(output, to);
      } else {
        write(rows, columns, output, to);
      }
    }
  }

  KOKKOS_FUNCTION static void put(T& to, T value) {
    if constexpr (Add) {
      to += value;
    } else {
      to = value;
    }
  }

  KOKKOS_FUNCTION void write_four(long output, T* to) const {
    T* const right = to + shape.channels;
    T* const below = to + static_cast<long>(shape.width) * shape.channels;
    T* const last = below + shape.channels;
    const int channels = shape.channels;
    HALOGRAD_IVDEP
    for (int c = 0; c < channels; ++c) {
      const auto given = share.at(output + c);
      put(to[c], given.for_place(0));
      put(right[c], given.for_place(1));
      put(below[c], given.for_place(2));
      put(last[c], given.for_place(3));
    }
  }

  KOKKOS_FUNCTION void write(const Reach& rows, const Reach& columns, long output, T* to) const {
    const int channels = shape.channels;
    for (int r = rows.begin; r < rows.end; ++r) {
      for (int s = columns.begin; s < columns.end; ++s) {
        T* const values = to + (static_cast<long>(r - rows.begin) * shape.width + (s - columns.begin)) * channels;
        const int place = r * shape.kernel_w + s;
        HALOGRAD_IVDEP
        for (int c = 0; c < channels; ++c) put(values[c], share.at(output + c).for_place(place));
      }
    }
  }
};

template <class T, class Share>
void pool_backward(const ExecutionSpace& exec, const char* label, const PoolShape& shape, const Share& share, T* dx,
                   bool accumulate) {
  const int out_height = shape.out_height();
  const int out_width = shape.out_width();
  const bool disjoint = shape.stride_h >= shape.kernel_h && shape.stride_w >= shape.kernel_w;
  if (!runs_on_host || !disjoint) {
    for_each_pixel(exec, label, shape.batch, shape.height, shape.width, shape.channels,
                   GatherBackward<T, Share>{shape, out_height, out_width, share, dx, accumulate});
    return;
  }
  const FlatRange lines(exec, 0, static_cast<long>(shape.batch) * out_height);
  if (accumulate) {
    Kokkos::parallel_for(label, lines, ScatterBackward<T, Share, true>{shape, out_height, out_width, share, dx, false});
  } else {
    const bool covered = shape.stride_h == shape.kernel_h && shape.stride_w == shape.kernel_w &&
                         out_height * shape.kernel_h >= shape.height + shape.pad_h &&
                         out_width * shape.kernel_w >= shape.width + shape.pad_w;
    Kokkos::parallel_for(label, lines,
                         ScatterBackward<T, Share, false>{shape, out_height, out_width, share, dx, !covered});
  }
}

}  // namespace

template <class T>
void max_pool_backward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> dy,
                       Vector<const std::uint8_t> which, Vector<T> dx, bool accumulate) {
  require_pool_shape("max_pool_backward", shape, dx.extent(0), dy.extent(0));
  require_pool_places("max_pool_backward", shape, which.extent(0), dy.extent(0));
  pool_backward(exec, "halograd::max_pool_backward", shape, MaxShare<T>{dy.data(), which.data()}, dx.data(),
                accumulate);
}

template <class T>
void avg_pool_backward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> dy, Vector<T> dx,
                       bool accumulate) {
  require_pool_shape("avg_pool_backward", shape, dx.extent(0), dy.extent(0));
  const T share = T(1) / T(shape.kernel_h * shape.kernel_w);
  pool_backward(exec, "halograd::avg_pool_backward", shape, AvgShare<T>{dy.data(), share}, dx.data(), accumulate);
}

#define HALOGRAD_INSTANTIATE(T)                                                                \
  template void max_pool_backward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, \
                                     Vector<const std::uint8_t>, Vector<T>, bool);             \
  template void avg_pool_backward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, Vector<T>, bool);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
