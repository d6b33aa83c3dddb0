#include "kernels/pool.hpp"

#include "kernels/pool_windows.hpp"

namespace halograd {

namespace {

/// True also for a NaN: a diverged run must show.
template <class T>
KOKKOS_INLINE_FUNCTION bool beats(T value, T best) {
  return value > best || value != value;
}

template <class T>
struct MaxPoolForward {
  PoolShape shape;
  int out_height, out_width;
  const T* x;
  T* y;
  std::uint8_t* which;

  KOKKOS_FUNCTION void operator()(int n, int p, int q, int channel, int count) const {
    const Reach rows = reach_of(p, shape.stride_h, shape.pad_h, shape.kernel_h, shape.height);
    const Reach columns = reach_of(q, shape.stride_w, shape.pad_w, shape.kernel_w, shape.width);
    const T* const from = x +
                          pixel_offset(n, rows.start + rows.begin, columns.start + columns.begin, shape.height,
                                       shape.width, shape.channels) +
                          channel;
    const long to = pixel_offset(n, p, q, out_height, out_width, shape.channels) + channel;
    if (shape.kernel_h == 2 && shape.kernel_w == 2 && rows.end - rows.begin == 2 && columns.end - columns.begin == 2) {
      largest_of_four(from, y + to, which + to, count);
    } else {
      largest(rows, columns, from, y + to, which + to, count);
    }
  }

  /// The usual window, whole: one pass with nothing kept in memory.
  KOKKOS_FUNCTION void largest_of_four(const T* from, T* to, std::uint8_t* place, int count) const {
    const T* const right = from + shape.channels;
    const T* const below = from + static_cast<long>(shape.width) * shape.channels;
    const T* const last = below + shape.channels;
    HALOGRAD_IVDEP
    for (int c = 0; c < count; ++c) {
      const T b = right[c], d = below[c], e = last[c];
      T best = from[c];
      int winner = 0;
      winner = beats(b, best) ? 1 : winner;
      best = beats(b, best) ? b : best;
      winner = beats(d, best) ? 2 : winner;
      best = beats(d, best) ? d : best;
      winner = beats(e, best) ? 3 : winner;
      best = beats(e, best) ? e : best;
      to[c] = best;
      place[c] = static_cast<std::uint8_t>(winner);
    }
  }

  KOKKOS_FUNCTION void largest(const Reach& rows, const Reach& columns, const T* from, T* to, std::uint8_t* place,
                               int count) const {
    T best[channel_tile];
    int winner[channel_tile];
    for (int c = 0; c < count; ++c) {
      best[c] = from[c];
      winner[c] = rows.begin * shape.kernel_w + columns.begin;
    }
    for (int r = rows.begin; r < rows.end; ++r) {
      for (int s = columns.begin; s < columns.end; ++s) {
        const T* const values =
            from + (static_cast<long>(r - rows.begin) * shape.width + (s - columns.begin)) * shape.channels;
        const int here = r * shape.kernel_w + s;
        for (int c = 0; c < count; ++c) {
          const bool wins = beats(values[c], best[c]);
          best[c] = wins ? values[c] : best[c];
          winner[c] = wins ? here : winner[c];
        }
      }
    }
    for (int c = 0; c < count; ++c) {
      to[c] = best[c];
      place[c] = static_cast<std::uint8_t>(winner[c]);
    }
  }
};

template <class T>
struct AvgPoolForward {
  PoolShape shape;
  int out_height, out_width;
  const T* x;
  T* y;

  KOKKOS_FUNCTION void operator()(int n, int p, int q, int channel, int count) const {
    const Reach rows = reach_of(p, shape.stride_h, shape.pad_h, shape.kernel_h, shape.height);
    const Reach columns = reach_of(q, shape.stride_w, shape.pad_w, shape.kernel_w, shape.width);
    T sum[channel_tile];
    for (int c = 0; c < count; ++c) sum[c] = T(0);
    for (int r = rows.begin; r < rows.end; ++r) {
      for (int s = columns.begin; s < columns.end; ++s) {
        const T* const values =
            x + pixel_offset(n, rows.start + r, columns.start + s, shape.height, shape.width, shape.channels) + channel;
        for (int c = 0; c < count; ++c) sum[c] += values[c];
      }
    }
    const T share = T(1) / T(shape.kernel_h * shape.kernel_w);
    T* const to = y + pixel_offset(n, p, q, out_height, out_width, shape.channels) + channel;
    for (int c = 0; c < count; ++c) to[c] = sum[c] * share;
  }
};

}  // namespace

template <class T>
void max_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, Vector<T> y,
                      Vector<std::uint8_t> which) {
  require_pool_shape("max_pool_forward", shape, x.extent(0), y.extent(0));
  require_pool_places("max_pool_forward", shape, which.extent(0), y.extent(0));
  for_each_pixel(exec, "halograd::max_pool_forward", shape.batch, shape.out_height(), shape.out_width(), shape.channels,
                 MaxPoolForward<T>{shape, shape.out_height(), shape.out_width(), x.data(), y.data(), which.data()});
}

template <class T>
void avg_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, Vector<T> y) {
  require_pool_shape("avg_pool_forward", shape, x.extent(0), y.extent(0));
  for_each_pixel(exec, "halograd::avg_pool_forward", shape.batch, shape.out_height(), shape.out_width(), shape.channels,
                 AvgPoolForward<T>{shape, shape.out_height(), shape.out_width(), x.data(), y.data()});
}

#define HALOGRAD_INSTANTIATE(T)                                                                          \
  template void max_pool_forward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, Vector<T>, \
                                    Vector<std::uint8_t>);                                               \
  template void avg_pool_forward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, Vector<T>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
