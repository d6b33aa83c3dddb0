#include "kernels/pack.hpp"
#include "kernels/pool_windows.hpp"

namespace halograd {

namespace {

/// What the inputs of a window get of its dy: the one that won, all of it.
template <class T>
struct MaxShare {
  const T* dy;
  const std::uint8_t* which;
  template <int lanes>
  struct Output {
    typename Pack<Wide<T>, lanes>::Value gradient;
    typename Pack<Wide<T>, lanes>::Index winner;
    KOKKOS_FORCEINLINE_FUNCTION void load(const MaxShare& share, long output) {
      typename Pack<Wide<T>, lanes>::Bytes bytes;
      load_pack(share.dy + output, gradient);
      load_pack(share.which + output, bytes);
      convert_pack<typename Pack<Wide<T>, lanes>::Shorts>(bytes, winner);
    }
    KOKKOS_FORCEINLINE_FUNCTION void add_to(int place, typename Pack<Wide<T>, lanes>::Value& sum) const {
      sum += winner == place ? gradient : typename Pack<Wide<T>, lanes>::Value{};
    }
  };
};

/// Each the same.
template <class T>
struct AvgShare {
  const T* dy;
  Wide<T> factor;
  template <int lanes>
  struct Output {
    typename Pack<Wide<T>, lanes>::Value gradient;
    KOKKOS_FORCEINLINE_FUNCTION void load(const AvgShare& share, long output) {
      load_pack(share.dy + output, gradient);
      gradient *= share.factor;
    }
    KOKKOS_FORCEINLINE_FUNCTION void add_to(int, typename Pack<Wide<T>, lanes>::Value& sum) const { sum += gradient; }
  };
};

/// Writes or adds what a window's `place` gets.
template <class T, int lanes, bool Add, class Output>
KOKKOS_FORCEINLINE_FUNCTION void give(const Output& output, int place, T* to) {
  typename Pack<Wide<T>, lanes>::Value sum{};
  if constexpr (Add) load_pack(to, sum);
  output.add_to(place, sum);
  store_pack(sum, to);
}

/// Any windows: each input gathers from those that hold it.
template <class T, class Share, bool Add>
struct GatherBackward {
  PoolWindows windows;
  Share share;
  T* dx;

  KOKKOS_FUNCTION void operator()(int plane, int row, int column, int channel, int count) const {
    const int plane_of_image = plane % windows.depth.extent;
    const long first = static_cast<long>(plane / windows.depth.extent) * windows.depth.outputs;
    const IndexRange planes = windows.depth.outputs_over(plane_of_image);
    const IndexRange rows = windows.height.outputs_over(row), columns = windows.width.outputs_over(column);
    T* const to = dx + windows.input(plane, row, column) + channel;
    const GatherBackward local = *this;
    for_each_pack<!Add>(count, [=](int c, auto lanes) {
      typename Pack<Wide<T>, lanes>::Value sum{};
      typename Share::template Output<lanes> given;
      if constexpr (Add) load_pack(to + c, sum);
      const PoolWindows& w = local.windows;
      for (int o = planes.begin; o < planes.end; ++o) {
        for (int p = rows.begin; p < rows.end; ++p) {
          for (int q = columns.begin; q < columns.end; ++q) {
            given.load(local.share, w.output(first + o, p, q) + channel + c);
            given.add_to(w.place(w.depth.tap(plane_of_image, o), w.height.tap(row, p), w.width.tap(column, q)), sum);
          }
        }
      }
      store_pack(sum, to + c);
    });
  }
};

/// Windows that do not overlap, on a host: each row of windows owns the input planes and rows from its own to the next
/// row's start, and writes them in order.
template <class T, class Share, bool Add>
struct ScatterBackward {
  PoolWindows windows;
  Share share;
  T* dx;
  bool clear;  ///< the windows leave gaps, which must become zero

  KOKKOS_FUNCTION void operator()(const long item) const {
    const ScatterBackward local = *this;  // no store can reach this copy
    local.write_band(item / windows.height.outputs, static_cast<int>(item % windows.height.outputs));
  }

  KOKKOS_FUNCTION void write_band(long out_plane, int p) const {
    const WindowAxis &depth = windows.depth, &height = windows.height, &width = windows.width;
    const long image = out_plane / depth.outputs * depth.extent;
    const int o = static_cast<int>(out_plane % depth.outputs);
    const WindowAxis::Reach planes = depth.reach(o), rows = height.reach(p);
    if (clear) {
      const int first = p == 0 ? 0 : rows.start;
      const int next = p + 1 == height.outputs ? height.extent : rows.start + height.stride;
      const int last_plane = o + 1 == depth.outputs ? depth.extent : planes.start + depth.stride;
      for (int plane = o == 0 ? 0 : planes.start; plane < last_plane; ++plane) {
        T* const begin = dx + windows.input(image + plane, first, 0);
        T* const end = dx + windows.input(image + plane, next, 0);
        for (T* value = begin; value < end; ++value) *value = T(0);
      }
    }
    for (int q = 0; q < width.outputs; ++q) {
      const WindowAxis::Reach columns = width.reach(q);
      const long output = windows.output(out_plane, p, q);
      T* const to = dx + windows.input(image + planes.first(), rows.first(), columns.first());
      if (windows.whole_four(rows, columns)) {
        write_four(output, to);
      } else {
        for (int t = planes.begin; t < planes.end; ++t) {
          write(t, rows, columns, output, to + windows.input(t - planes.begin, 0, 0));
        }
      }
    }
  }

  KOKKOS_FUNCTION void write_four(long output, T* to) const {
    T* const right = to + windows.input(0, 0, 1);
    T* const below = to + windows.input(0, 1, 0);
    T* const last = to + windows.input(0, 1, 1);
    const Share source = share;
    for_each_pack<!Add>(windows.channels, [=](int c, auto lanes) {
      typename Share::template Output<lanes> given;
      given.load(source, output + c);
      give<T, lanes, Add>(given, 0, to + c);
      give<T, lanes, Add>(given, 1, right + c);
      give<T, lanes, Add>(given, 2, below + c);
      give<T, lanes, Add>(given, 3, last + c);
    });
  }

  KOKKOS_FUNCTION void write(int t, const WindowAxis::Reach& rows, const WindowAxis::Reach& columns, long output,
                             T* to) const {
    const int channels = windows.channels;
    const Share source = share;
    for (int r = rows.begin; r < rows.end; ++r) {
      for (int s = columns.begin; s < columns.end; ++s) {
        T* const values = to + windows.input(0, r - rows.begin, s - columns.begin);
        const int place = windows.place(t, r, s);
        for_each_pack<!Add>(channels, [=](int c, auto lanes) {
          typename Share::template Output<lanes> given;
          given.load(source, output + c);
          give<T, lanes, Add>(given, place, values + c);
        });
      }
    }
  }
};

template <class T, class Share>
void pool_backward(const ExecutionSpace& exec, const char* name, const PoolShape& shape, const Share& share, T* dx,
                   bool accumulate) {
  const PoolWindows windows(shape);
  bool disjoint = true, covered = true;
  for (int i = 0; i < 3; ++i) {
    const WindowAxis axis = shape.axis(i);
    disjoint = disjoint && axis.stride >= axis.kernel;
    covered = covered && axis.stride == axis.kernel && axis.outputs * axis.kernel >= axis.extent + axis.padding;
  }
  if (!runs_on_host || !disjoint) {
    const auto run = [&](const auto& body) {
      for_each_pixel(exec, name, static_cast<long>(shape.batch) * windows.depth.extent, windows.height.extent,
                     windows.width.extent, shape.channels, body);
    };
    if (accumulate) {
      run(GatherBackward<T, Share, true>{windows, share, dx});
    } else {
      run(GatherBackward<T, Share, false>{windows, share, dx});
    }
    return;
  }
  const FlatRange lines(exec, 0, static_cast<long>(shape.batch) * windows.depth.outputs * windows.height.outputs);
  if (accumulate) {
    Kokkos::parallel_for(label(name), lines, ScatterBackward<T, Share, true>{windows, share, dx, false});
  } else {
    Kokkos::parallel_for(label(name), lines, ScatterBackward<T, Share, false>{windows, share, dx, !covered});
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
  const auto share =
      Wide<T>(1) / static_cast<Wide<T>>(static_cast<long>(shape.kernel[0]) * shape.kernel[1] * shape.kernel[2]);
  pool_backward(exec, "halograd::avg_pool_backward", shape, AvgShare<T>{dy.data(), share}, dx.data(), accumulate);
}

#define HALOGRAD_INSTANTIATE(T)                                                                \
  template void max_pool_backward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, \
                                     Vector<const std::uint8_t>, Vector<T>, bool);             \
  template void avg_pool_backward<T>(const ExecutionSpace&, const PoolShape&, Vector<const T>, Vector<T>, bool);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
