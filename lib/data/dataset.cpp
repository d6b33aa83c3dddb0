#include "data/dataset.hpp"

#include "data/readers.hpp"
#include "kernels/error.hpp"

namespace halograd {

const std::vector<DatasetFormat>& dataset_formats() {
  static const std::vector<DatasetFormat> formats{
      {"idx", "files of MNIST, Fashion-MNIST or EMNIST, plain or gzipped",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn&) { return open_idx(config.path, split); },
       DataPath::folder, is_idx_folder},
      {"cifar10", "CIFAR-10's binary version",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn&) {
         return open_cifar(config.path, split, 10);
       },
       DataPath::folder, [](const std::filesystem::path& folder) { return is_cifar_folder(folder, 10); }},
      {"cifar100", "CIFAR-100's binary version, fine labels",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn&) {
         return open_cifar(config.path, split, 100);
       },
       DataPath::folder, [](const std::filesystem::path& folder) { return is_cifar_folder(folder, 100); }},
      {"hdf5", "a file of any size, read as it is needed",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn& warn) {
         return open_hdf5_images(config, split, warn);
       },
       DataPath::file, nullptr},
      {"synthetic", "patterns made as they are read",
       [](const DataConfig& config, Split split, std::uint64_t seed, const Warn&) {
         return make_synthetic(config, split, seed);
       },
       DataPath::none, nullptr}};
  return formats;
}

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, Split split, std::uint64_t seed, const Warn& warn) {
  const DatasetFormat& format = row_of(dataset_formats(), config.format, "data.format");
  HALOGRAD_REQUIRE(format.path == DataPath::none || !config.path.empty(), "data.path is empty: format \"",
                   config.format, "\" needs a ", format.path == DataPath::file ? "file" : "folder");
  return format.open(config, split, seed, warn);
}

}  // namespace halograd
