#pragma once

#include "data/loader.hpp"
#include "nn/network.hpp"

namespace halograd {

/// A loader's batch as a network takes it; null is an empty one.
inline HostBatch host_batch(const Batch* batch) {
  if (batch == nullptr) return {};
  return {batch->size, batch->images.data(), batch->labels.data(), batch->targets.data()};
}

}  // namespace halograd
