#pragma once

#include <functional>

#include "data/loader.hpp"
#include "io/prediction_file.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "train/tiles.hpp"

namespace halograd {

/// What is predicted of: images, normalised as `config` says, each cut as `tiling` says.
struct TiledImages {
  const Dataset& images;
  const DataConfig& config;
  const Tiling& tiling;
};

/// Collective. Passes all images through the network and writes what it predicts. Whole images are dealt to the ranks
/// in shares, and so are images in tiles; where these are fewer than ranks, several ranks share the tiles of one, whose
/// first rank puts them together. Of an image in tiles no rank holds more than TileBlend does, where the set reads
/// parts of it. `done` is told how many of how many images, or tiles, are finished on this rank and those it shares
/// with. Throws Error on all ranks.
void predict(const Communicator& comm, Network& network, const Replica& replica, const TiledImages& images,
             const PredictionFile& file, const std::function<void(long finished, long all)>& done);

}  // namespace halograd
