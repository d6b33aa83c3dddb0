#pragma once

#include "kernels/bfloat16.hpp"
#include "kernels/shape.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// A batch of parts of images, (N, box extents, C).
template <class T>
struct BoxValues {
  Vector<T> values{};
  Box box{};  ///< of the image
};

/// Copies the pixels of `box`, which both sides hold, of `batch` images; with `add`, adds them. With a mask (values of
/// T, whose box holds `box` too), what comes out is zero where the mask is not positive. Throws Error where a side is
/// too short or does not hold the box.
template <class T>
void copy_box(const ExecutionSpace& exec, int batch, int channels, const Box& box, const BoxValues<const T>& from,
              const BoxValues<T>& to, bool add, const BoxValues<const T>& mask = {});

}  // namespace halograd
