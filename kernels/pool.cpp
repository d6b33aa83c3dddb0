#include "kernels/pool.hpp"

#include "kernels/pack.hpp"
#include "kernels/pool_windows.hpp"

namespace halograd {

namespace {

/// Takes the values that are larger, and their place. A NaN wins as well: a diverged run must show.
template <class Value, class Index>
KOKKOS_FORCEINLINE_FUNCTION void take_larger(const Value& value, int place, Value& best, Index& winner) {
  const auto wins = (value > best) | (value != value);  // NOLINT(misc-redundant-expression): a NaN differs from itself
  best = wins ? value : best;
  winner = wins ? Index{} + place : winner;
}

template <class T, bool Mask>
struct MaxPoolForward {
  PoolShape shape;
  int out_depth, out_height, out_width;
  const T* x;
  T* y;
  std::uint8_t* which;

  template <class Value, class Index>
  KOKKOS_FORCEINLINE_FUNCTION static void mask(const Value& best, Index& winner) {
    if constexpr (Mask) winner = best > Value{} ? winner : Index{} + max_pool_mask_places;
  }

  KOKKOS_FUNCTION void operator()(int plane, int p, int q, int channel, int count) const {
    const Reach planes = reach_of(plane % out_depth, shape.stride_d, shape.pad_d, shape.kernel_d, shape.depth);
    const Reach rows = reach_of(p, shape.stride_h, shape.pad_h, shape.kernel_h, shape.height);
    const Reach columns = reach_of(q, shape.stride_w, shape.pad_w, shape.kernel_w, shape.width);
    const long first = static_cast<long>(plane / out_depth) * shape.depth + planes.start + planes.begin;
    const T* const from = x +
                          pixel_offset(first, rows.start + rows.begin, columns.start + columns.begin, shape.height,
                                       shape.width, shape.channels) +
                          channel;
    const long to = pixel_offset(plane, p, q, out_height, out_width, shape.channels) + channel;
    if (shape.kernel_d == 1 && shape.kernel_h == 2 && shape.kernel_w == 2 && rows.end - rows.begin == 2 &&
        columns.end - columns.begin == 2) {
      largest_of_four(from, y + to, which + to, count);
    } else {
      largest(planes, rows, columns, from, y + to, which + to, count);
    }
  }

  /// The usual window, whole: one pass with nothing kept in memory.
  KOKKOS_FUNCTION void largest_of_four(const T* from, T* to, std::uint8_t* place, int count) const {
    const T* const right = from + shape.channels;
    const T* const below = from + static_cast<long>(shape.width) * shape.channels;
    const T* const last = below + shape.channels;
    for_each_pack<true>(count, [=](int c, auto lanes) {
      typename Pack<T, lanes>::Value best, value;
      typename Pack<T, lanes>::Index winner{};
      typename Pack<T, lanes>::Bytes bytes;
      load_pack(from + c, best);
      load_pack(right + c, value);
      take_larger(value, 1, best, winner);
      load_pack(below + c, value);
      take_larger(value, 2, best, winner);
      load_pack(last + c, value);
      take_larger(value, 3, best, winner);
      store_pack(best, to + c);
      mask(best, winner);
      convert_pack<typename Pack<T, lanes>::Shorts>(winner, bytes);
      store_pack(bytes, place + c);
    });
  }

  KOKKOS_FUNCTION void largest(const Reach& planes, const Reach& rows, const Reach& columns, const T* from, T* to,
                               std::uint8_t* place, int count) const {
    const PoolShape s = shape;
    for_each_pack<true>(count, [=](int c, auto lanes) {
      typename Pack<T, lanes>::Value best, value;
      typename Pack<T, lanes>::Index winner =
          typename Pack<T, lanes>::Index{} + ((planes.begin * s.kernel_h + rows.begin) * s.kernel_w + columns.begin);
      typename Pack<T, lanes>::Bytes bytes;
      load_pack(from + c, best);
      for (int t = planes.begin; t < planes.end; ++t) {
        for (int r = rows.begin; r < rows.end; ++r) {
          for (int column = columns.begin; column < columns.end; ++column) {
            const long skip =
                pixel_offset(t - planes.begin, r - rows.begin, column - columns.begin, s.height, s.width, s.channels);
            load_pack(from + skip + c, value);
            take_larger(value, (t * s.kernel_h + r) * s.kernel_w + column, best, winner);
          }
        }
      }
      store_pack(best, to + c);
      mask(best, winner);
      convert_pack<typename Pack<T, lanes>::Shorts>(winner, bytes);
      store_pack(bytes, place + c);
    });
  }
};

template <class T>
struct AvgPoolForward {
  PoolShape shape;
  int out_depth, out_height, out_width;
  const T* x;
  T* y;

  KOKKOS_FUNCTION void operator()(int plane, int p, int q, int channel, int count) const {
    const Reach planes = reach_of(plane % out_depth, shape.stride_d, shape.pad_d, shape.kernel_d, shape.depth);
    const Reach rows = reach_of(p, shape.stride_h, shape.pad_h, shape.kernel_h, shape.height);
    const Reach columns = reach_of(q, shape.stride_w, shape.pad_w, shape.kernel_w, shape.width);
    const T share = T(1) / T(static_cast<long>(shape.kernel_d) * shape.kernel_h * shape.kernel_w);
    const long first = static_cast<long>(plane / out_depth) * shape.depth + planes.start + planes.begin;
    const T* const from = x +
                          pixel_offset(first, rows.start + rows.begin, columns.start + columns.begin, shape.height,
                                       shape.width, shape.channels) +
                          channel;
    T* const to = y + pixel_offset(plane, p, q, out_height, out_width, shape.channels) + channel;
    const PoolShape s = shape;
    for_each_pack<true>(count, [=](int c, auto lanes) {
      typename Pack<T, lanes>::Value sum{}, value;
      for (int t = 0; t < planes.end - planes.begin; ++t) {
        for (int r = 0; r < rows.end - rows.begin; ++r) {
          for (int column = 0; column < columns.end - columns.begin; ++column) {
            load_pack(from + pixel_offset(t, r, column, s.height, s.width, s.channels) + c, value);
            sum += value;
          }
        }
      }
      sum *= share;
      store_pack(sum, to + c);
    });
  }
};

}  // namespace

template <class T>
void max_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, bool mask, Vector<T> y,
                      Vector<std::uint8_t> which) {
  require_pool_shape("max_pool_forward", shape, x.extent(0), y.extent(0));
  require_pool_places("max_pool_forward", shape, which.extent(0), y.extent(0));
  HALOGRAD_REQUIRE(!mask || shape.kernel_d * shape.kernel_h * shape.kernel_w <= max_pool_mask_places,
                   "max_pool_forward: a window of ", shape.kernel_d, " x ", shape.kernel_h, " x ", shape.kernel_w,
                   " leaves no number for nobody");
  const int depth = shape.out_depth(), height = shape.out_height(), width = shape.out_width();
  const auto run = [&](const auto& body) {
    for_each_pixel(exec, "halograd::max_pool_forward", static_cast<long>(shape.batch) * depth, height, width,
                   shape.channels, body);
  };
  if (mask) {
    run(MaxPoolForward<T, true>{shape, depth, height, width, x.data(), y.data(), which.data()});
  } else {
    run(MaxPoolForward<T, false>{shape, depth, height, width, x.data(), y.data(), which.data()});
  }
}

template <class T>
void avg_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, Vector<T> y) {
  require_pool_shape("avg_pool_forward", shape, x.extent(0), y.extent(0));
  const int depth = shape.out_depth(), height = shape.out_height(), width = shape.out_width();
  for_each_pixel(exec, "halograd::avg_pool_forward", static_cast<long>(shape.batch) * depth, height, width,
                 shape.channels, AvgPoolForward<T>{shape, depth, height, width, x.data(), y.data()});
}

#define HALOGRAD_INSTANTIATE(T)                                                                                \
  template void max_pool_forward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, bool, Vector<T>, \
                                    Vector<std::uint8_t>);                                                     \
  template void avg_pool_forward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, Vector<T>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
