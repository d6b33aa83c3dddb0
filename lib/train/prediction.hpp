#pragma once

#include <functional>

#include "data/loader.hpp"
#include "io/prediction_file.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "train/tiles.hpp"

namespace halograd {

/// Collective. Passes all that the loader deals to the ranks through the network, image by image cut as `tiling` says,
/// and writes what it predicts. `done` is told of the images that this rank has finished. Throws Error on all ranks.
void predict(const Communicator& comm, Network& network, const Replica& replica, Loader& loader, const Tiling& tiling,
             const PredictionFile& file, const std::function<void(long images)>& done);

}  // namespace halograd
