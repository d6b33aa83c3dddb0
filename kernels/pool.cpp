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
  PoolWindows windows;
  const T* x;
  T* y;
  std::uint8_t* which;

  template <class Value, class Index>
  KOKKOS_FORCEINLINE_FUNCTION static void mask(const Value& best, Index& winner) {
    if constexpr (Mask) winner = best > Value{} ? winner : Index{} + max_pool_mask_places;
  }

  KOKKOS_FUNCTION void operator()(int plane, int p, int q, int channel, int count) const {
    const WindowAxis::Reach planes = windows.depth.reach(plane % windows.depth.outputs);
    const WindowAxis::Reach rows = windows.height.reach(p), columns = windows.width.reach(q);
    const long first = static_cast<long>(plane / windows.depth.outputs) * windows.depth.extent + planes.first();
    const T* const from = x + windows.input(first, rows.first(), columns.first()) + channel;
    const long to = windows.output(plane, p, q) + channel;
    if (windows.whole_four(rows, columns)) {
      largest_of_four(from, y + to, which + to, count);
    } else {
      largest(planes, rows, columns, from, y + to, which + to, count);
    }
  }

  /// The usual window, whole: one pass with nothing kept in memory.
  KOKKOS_FUNCTION void largest_of_four(const T* from, T* to, std::uint8_t* place, int count) const {
    const T* const right = from + windows.input(0, 0, 1);
    const T* const below = from + windows.input(0, 1, 0);
    const T* const last = from + windows.input(0, 1, 1);
    for_each_pack<true>(count, [=](int c, auto lanes) {
      typename Pack<Wide<T>, lanes>::Value best, value;
      typename Pack<Wide<T>, lanes>::Index winner{};
      typename Pack<Wide<T>, lanes>::Bytes bytes;
      load_pack(from + c, best);
      load_pack(right + c, value);
      take_larger(value, 1, best, winner);
      load_pack(below + c, value);
      take_larger(value, 2, best, winner);
      load_pack(last + c, value);
      take_larger(value, 3, best, winner);
      store_pack(best, to + c);
      mask(best, winner);
      convert_pack<typename Pack<Wide<T>, lanes>::Shorts>(winner, bytes);
      store_pack(bytes, place + c);
    });
  }

  KOKKOS_FUNCTION void largest(const WindowAxis::Reach& planes, const WindowAxis::Reach& rows,
                               const WindowAxis::Reach& columns, const T* from, T* to, std::uint8_t* place,
                               int count) const {
    const PoolWindows w = windows;
    for_each_pack<true>(count, [=](int c, auto lanes) {
      typename Pack<Wide<T>, lanes>::Value best, value;
      typename Pack<Wide<T>, lanes>::Index winner =
          typename Pack<Wide<T>, lanes>::Index{} + w.place(planes.begin, rows.begin, columns.begin);
      typename Pack<Wide<T>, lanes>::Bytes bytes;
      load_pack(from + c, best);
      for (int t = planes.begin; t < planes.end; ++t) {
        for (int r = rows.begin; r < rows.end; ++r) {
          for (int column = columns.begin; column < columns.end; ++column) {
            load_pack(from + w.input(t - planes.begin, r - rows.begin, column - columns.begin) + c, value);
            take_larger(value, w.place(t, r, column), best, winner);
          }
        }
      }
      store_pack(best, to + c);
      mask(best, winner);
      convert_pack<typename Pack<Wide<T>, lanes>::Shorts>(winner, bytes);
      store_pack(bytes, place + c);
    });
  }
};

template <class T>
struct AvgPoolForward {
  PoolWindows windows;
  const T* x;
  T* y;

  KOKKOS_FUNCTION void operator()(int plane, int p, int q, int channel, int count) const {
    const WindowAxis::Reach planes = windows.depth.reach(plane % windows.depth.outputs);
    const WindowAxis::Reach rows = windows.height.reach(p), columns = windows.width.reach(q);
    const auto share = Wide<T>(1) / static_cast<Wide<T>>(static_cast<long>(windows.depth.kernel) *
                                                         windows.height.kernel * windows.width.kernel);
    const long first = static_cast<long>(plane / windows.depth.outputs) * windows.depth.extent + planes.first();
    const T* const from = x + windows.input(first, rows.first(), columns.first()) + channel;
    T* const to = y + windows.output(plane, p, q) + channel;
    const PoolWindows w = windows;
    for_each_pack<true>(count, [=](int c, auto lanes) {
      typename Pack<Wide<T>, lanes>::Value sum{}, value;
      for (int t = 0; t < planes.count(); ++t) {
        for (int r = 0; r < rows.count(); ++r) {
          for (int column = 0; column < columns.count(); ++column) {
            load_pack(from + w.input(t, r, column) + c, value);
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
  HALOGRAD_REQUIRE(!mask || shape.taps() <= max_pool_mask_places, "max_pool_forward: a window of ", shape.kernel[0],
                   " x ", shape.kernel[1], " x ", shape.kernel[2], " has too many places for its mask");
  const PoolWindows windows(shape);
  const auto run = [&](const auto& body) {
    for_each_pixel(exec, "halograd::max_pool_forward", static_cast<long>(shape.batch) * windows.depth.outputs,
                   windows.height.outputs, windows.width.outputs, shape.channels, body);
  };
  if (mask) {
    run(MaxPoolForward<T, true>{windows, x.data(), y.data(), which.data()});
  } else {
    run(MaxPoolForward<T, false>{windows, x.data(), y.data(), which.data()});
  }
}

template <class T>
void avg_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, Vector<T> y) {
  require_pool_shape("avg_pool_forward", shape, x.extent(0), y.extent(0));
  const PoolWindows windows(shape);
  for_each_pixel(exec, "halograd::avg_pool_forward", static_cast<long>(shape.batch) * windows.depth.outputs,
                 windows.height.outputs, windows.width.outputs, shape.channels,
                 AvgPoolForward<T>{windows, x.data(), y.data()});
}

#define HALOGRAD_INSTANTIATE(T)                                                                                \
  template void max_pool_forward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, bool, Vector<T>, \
                                    Vector<std::uint8_t>);                                                     \
  template void avg_pool_forward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, Vector<T>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
