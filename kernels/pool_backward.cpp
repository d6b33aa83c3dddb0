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
    typename Pack<T, lanes>::Value gradient;
    typename Pack<T, lanes>::Index winner;
    KOKKOS_FORCEINLINE_FUNCTION void load(const MaxShare& share, long output) {
      typename Pack<T, lanes>::Bytes bytes;
      load_pack(share.dy + output, gradient);
      load_pack(share.which + output, bytes);
      convert_pack<typename Pack<T, lanes>::Shorts>(bytes, winner);
    }
    KOKKOS_FORCEINLINE_FUNCTION void add_to(int place, typename Pack<T, lanes>::Value& sum) const {
      sum += winner == place ? gradient : typename Pack<T, lanes>::Value{};
    }
  };
};

/// Each the same.
template <class T>
struct AvgShare {
  const T* dy;
  T factor;
  template <int lanes>
  struct Output {
    typename Pack<T, lanes>::Value gradient;
    KOKKOS_FORCEINLINE_FUNCTION void load(const AvgShare& share, long output) {
      load_pack(share.dy + output, gradient);
      gradient *= share.factor;
    }
    KOKKOS_FORCEINLINE_FUNCTION void add_to(int, typename Pack<T, lanes>::Value& sum) const { sum += gradient; }
  };
};

/// Writes or adds what a window's `place` gets.
template <class T, int lanes, bool Add, class Output>
KOKKOS_FORCEINLINE_FUNCTION void give(const Output& output, int place, T* to) {
  typename Pack<T, lanes>::Value sum{};
  if constexpr (Add) load_pack(to, sum);
  output.add_to(place, sum);
  store_pack(sum, to);
}

/// Any windows: each input gathers from those that hold it.
template <class T, class Share, bool Add>
struct GatherBackward {
  PoolShape shape;
  int out_depth, out_height, out_width;
  Share share;
  T* dx;

  KOKKOS_FUNCTION void operator()(int plane, int row, int column, int channel, int count) const {
    const long first = static_cast<long>(plane / shape.depth) * out_depth;
    const Reach planes = windows_over(plane % shape.depth, shape.stride_d, shape.pad_d, shape.kernel_d, out_depth);
    const Reach rows = windows_over(row, shape.stride_h, shape.pad_h, shape.kernel_h, out_height);
    const Reach columns = windows_over(column, shape.stride_w, shape.pad_w, shape.kernel_w, out_width);
    T* const to = dx + pixel_offset(plane, row, column, shape.height, shape.width, shape.channels) + channel;
    const GatherBackward local = *this;
    for_each_pack<!Add>(count, [=](int c, auto lanes) {
      typename Pack<T, lanes>::Value sum{};
      typename Share::template Output<lanes> given;
      if constexpr (Add) load_pack(to + c, sum);
      const PoolShape& s = local.shape;
      for (int o = planes.begin; o < planes.end; ++o) {
        for (int p = rows.begin; p < rows.end; ++p) {
          for (int q = columns.begin; q < columns.end; ++q) {
            const int line = (planes.start - o * s.stride_d) * s.kernel_h + (rows.start - p * s.stride_h);
            const int place = line * s.kernel_w + (columns.start - q * s.stride_w);
            given.load(local.share,
                       pixel_offset(first + o, p, q, local.out_height, local.out_width, s.channels) + channel + c);
            given.add_to(place, sum);
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
  PoolShape shape;
  int out_depth, out_height, out_width;
  Share share;
  T* dx;
  bool clear;  ///< the windows leave gaps, which must become zero

  KOKKOS_FUNCTION void operator()(const long item) const {
    const ScatterBackward local = *this;  // no store can reach this copy
    local.write_band(item / out_height, static_cast<int>(item % out_height));
  }

  KOKKOS_FUNCTION void write_band(long out_plane, int p) const {
    const long image = out_plane / out_depth * shape.depth;
    const int o = static_cast<int>(out_plane % out_depth);
    const Reach planes = reach_of(o, shape.stride_d, shape.pad_d, shape.kernel_d, shape.depth);
    const Reach rows = reach_of(p, shape.stride_h, shape.pad_h, shape.kernel_h, shape.height);
    if (clear) {
      const int first = p == 0 ? 0 : rows.start;
      const int next = p + 1 == out_height ? shape.height : rows.start + shape.stride_h;
      const int last_plane = o + 1 == out_depth ? shape.depth : planes.start + shape.stride_d;
      for (int plane = o == 0 ? 0 : planes.start; plane < last_plane; ++plane) {
        T* const begin = dx + pixel_offset(image + plane, first, 0, shape.height, shape.width, shape.channels);
        T* const end = dx + pixel_offset(image + plane, next, 0, shape.height, shape.width, shape.channels);
        for (T* value = begin; value < end; ++value) *value = T(0);
      }
    }
    const long plane = image + planes.start + planes.begin;
    for (int q = 0; q < out_width; ++q) {
      const Reach columns = reach_of(q, shape.stride_w, shape.pad_w, shape.kernel_w, shape.width);
      const long output = pixel_offset(out_plane, p, q, out_height, out_width, shape.channels);
      T* const to = dx + pixel_offset(plane, rows.start + rows.begin, columns.start + columns.begin, shape.height,
                                      shape.width, shape.channels);
      if (shape.kernel_d == 1 && shape.kernel_h == 2 && shape.kernel_w == 2 && rows.end - rows.begin == 2 &&
          columns.end - columns.begin == 2) {
        write_four(output, to);
      } else {
        for (int t = planes.begin; t < planes.end; ++t) {
          T* const at = to + pixel_offset(t - planes.begin, 0, 0, shape.height, shape.width, shape.channels);
          write(t * shape.kernel_h, rows, columns, output, at);
        }
      }
    }
  }

  KOKKOS_FUNCTION void write_four(long output, T* to) const {
    T* const right = to + shape.channels;
    T* const below = to + static_cast<long>(shape.width) * shape.channels;
    T* const last = below + shape.channels;
    const Share source = share;
    for_each_pack<!Add>(shape.channels, [=](int c, auto lanes) {
      typename Share::template Output<lanes> given;
      given.load(source, output + c);
      give<T, lanes, Add>(given, 0, to + c);
      give<T, lanes, Add>(given, 1, right + c);
      give<T, lanes, Add>(given, 2, below + c);
      give<T, lanes, Add>(given, 3, last + c);
    });
  }

  KOKKOS_FUNCTION void write(int line, const Reach& rows, const Reach& columns, long output, T* to) const {
    const int channels = shape.channels;
    const Share source = share;
    for (int r = rows.begin; r < rows.end; ++r) {
      for (int s = columns.begin; s < columns.end; ++s) {
        T* const values = to + (static_cast<long>(r - rows.begin) * shape.width + (s - columns.begin)) * channels;
        const int place = (line + r) * shape.kernel_w + s;
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
  const int out_depth = shape.out_depth(), out_height = shape.out_height(), out_width = shape.out_width();
  const long planes = static_cast<long>(shape.batch) * shape.depth;
  const bool disjoint =
      shape.stride_d >= shape.kernel_d && shape.stride_h >= shape.kernel_h && shape.stride_w >= shape.kernel_w;
  if (!runs_on_host || !disjoint) {
    if (accumulate) {
      for_each_pixel(exec, name, planes, shape.height, shape.width, shape.channels,
                     GatherBackward<T, Share, true>{shape, out_depth, out_height, out_width, share, dx});
    } else {
      for_each_pixel(exec, name, planes, shape.height, shape.width, shape.channels,
                     GatherBackward<T, Share, false>{shape, out_depth, out_height, out_width, share, dx});
    }
    return;
  }
  const FlatRange lines(exec, 0, static_cast<long>(shape.batch) * out_depth * out_height);
  if (accumulate) {
    Kokkos::parallel_for(label(name), lines,
                         ScatterBackward<T, Share, true>{shape, out_depth, out_height, out_width, share, dx, false});
  } else {
    const bool covered = shape.stride_d == shape.kernel_d && shape.stride_h == shape.kernel_h &&
                         shape.stride_w == shape.kernel_w && out_depth * shape.kernel_d >= shape.depth + shape.pad_d &&
                         out_height * shape.kernel_h >= shape.height + shape.pad_h &&
                         out_width * shape.kernel_w >= shape.width + shape.pad_w;
    Kokkos::parallel_for(
        label(name), lines,
        ScatterBackward<T, Share, false>{shape, out_depth, out_height, out_width, share, dx, !covered});
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
  const T share = T(1) / T(static_cast<long>(shape.kernel_d) * shape.kernel_h * shape.kernel_w);
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
