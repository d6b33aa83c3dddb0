#include "data/dataset.hpp"

#include <utility>

#include "data/readers.hpp"
#include "kernels/error.hpp"

namespace halograd {

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, Split split, std::uint64_t seed, Warn warn) {
  if (config.format == "synthetic") return make_synthetic(config, split, seed);
  HALOGRAD_REQUIRE(!config.path.empty(), "data.path is empty: format \"", config.format, "\" needs a folder or file");
  if (config.format == "idx") return open_idx(config.path, split);
  if (config.format == "cifar10") return open_cifar(config.path, split, 10);
  if (config.format == "cifar100") return open_cifar(config.path, split, 100);
  if (config.format == "hdf5") return open_hdf5(config, split, std::move(warn));
  fail("data.format is \"", config.format, "\", expected idx, cifar10, cifar100, hdf5 or synthetic");
}

}  // namespace halograd
