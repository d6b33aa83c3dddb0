#pragma once

#include <memory>

#include "data/dataset.hpp"

namespace halograd {

/// The same part of all images of a set, which is read whole, and of labels per pixel.
std::unique_ptr<Dataset> cut_dataset(std::unique_ptr<Dataset> whole, const PartOf& part);

}  // namespace halograd
