#pragma once

#include <algorithm>
#include <memory>

#include "data/dataset.hpp"

namespace halograd {

/// Copies a box of an image of this shape, with `values` values per pixel, to out; returns what follows there.
template <class T>
T* cut(const T* image, const ImageShape& shape, long values, const Box& box, T* out) {
  for_each_row(shape, box, [&](long from, long /*to*/, long pixels) {
    out = std::copy_n(image + from * values, pixels * values, out);
  });
  return out;
}

/// The same part of all images of a set, which is read whole, and of labels per pixel.
std::unique_ptr<Dataset> cut_dataset(std::unique_ptr<Dataset> whole, const PartOf& part);

}  // namespace halograd
