#include "kernels/box.hpp"

#include <type_traits>

#include "kernels/chunks.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

/// Where the pixels of a box lie among the values of a larger one.
struct Place {
  long row, plane, image, first;  ///< values from row to row and so on, and before the first
  Place(const Box& all, const Box& box, int channels) {
    const std::array<int, 3> extents = all.extents();
    row = static_cast<long>(extents[2]) * channels;
    plane = row * extents[1];
    image = plane * extents[0];
    first = (box.begin[0] - all.begin[0]) * plane + (box.begin[1] - all.begin[1]) * row +
            static_cast<long>(box.begin[2] - all.begin[2]) * channels;
  }
  [[nodiscard]] KOKKOS_FUNCTION long at(long n, int d, int h) const { return first + n * image + d * plane + h * row; }
};

/// A host's work item is a row of the box, an accelerator's a value.
template <class T, bool Add, bool Mask>
struct CopyBox {
  int depth, height;
  long length;  ///< values of a row of the box
  Place source, target, where;
  const T* from;
  T* to;
  const T* mask;
  KOKKOS_FUNCTION void operator()(const long item) const {
    const long number = runs_on_host ? item : item / length;
    const long begin = runs_on_host ? 0 : item % length, end = runs_on_host ? length : begin + 1;
    const Divided line(number, height), plane(line.quotient, depth);
    const T* const x = from + source.at(plane.quotient, plane.rest, line.rest);
    const T* const m = Mask ? mask + where.at(plane.quotient, plane.rest, line.rest) : nullptr;
    T* const y = to + target.at(plane.quotient, plane.rest, line.rest);
    HALOGRAD_IVDEP
    for (long i = begin; i < end; ++i) {
      Wide<T> value = x[i];
      if constexpr (Add) value += y[i];
      if constexpr (Mask) value = m[i] > 0 ? value : 0;
      y[i] = value;
    }
  }
};

template <class T>
void require_box(const char* side, const BoxValues<T>& values, const Box& box, int batch, int channels) {
  HALOGRAD_REQUIRE(values.box.holds(box), "copy_box: ", side, " does not hold all pixels of the box");
  const auto needed = static_cast<std::size_t>(values.box.pixels() * batch * channels);
  HALOGRAD_REQUIRE(values.values.extent(0) >= needed, "copy_box: ", side, " has ", values.values.extent(0), " values, ",
                   needed, " are needed");
}

}  // namespace

template <class T>
void copy_box(const ExecutionSpace& exec, int batch, int channels, const Box& box, const BoxValues<const T>& from,
              const BoxValues<T>& to, bool add, const BoxValues<const T>& mask) {
  if (box.empty()) return;
  const bool masked = mask.values.extent(0) > 0;
  require_box("what is read", from, box, batch, channels);
  require_box("what is written", to, box, batch, channels);
  if (masked) require_box("the mask", mask, box, batch, channels);
  const std::array<int, 3> extents = box.extents();
  const long rows = static_cast<long>(batch) * extents[0] * extents[1];
  const long length = static_cast<long>(extents[2]) * channels;
  const FlatRange items(exec, 0, runs_on_host ? rows : rows * length);
  const auto run = [&](auto adds, auto masks) {
    Kokkos::parallel_for(
        label("halograd::copy_box"), items,
        CopyBox<T, decltype(adds)::value, decltype(masks)::value>{
            extents[0], extents[1], length, Place(from.box, box, channels), Place(to.box, box, channels),
            Place(masked ? mask.box : box, box, channels), from.values.data(), to.values.data(), mask.values.data()});
  };
  if (add) {
    masked ? run(std::true_type(), std::true_type()) : run(std::true_type(), std::false_type());
  } else {
    masked ? run(std::false_type(), std::true_type()) : run(std::false_type(), std::false_type());
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                     \
  template void copy_box<T>(const ExecutionSpace&, int, int, const Box&, const BoxValues<const T>&, \
                            const BoxValues<T>&, bool, const BoxValues<const T>&);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
