#include "data/dataset.hpp"

#include <utility>

#include "data/cut_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace {

/// The parts of a set that is read whole; without any, all of it.
std::unique_ptr<Dataset> cut_where(const PartOf& part, std::unique_ptr<Dataset> whole) {
  return part ? cut_dataset(std::move(whole), part) : std::move(whole);
}

}  // namespace

const std::vector<DatasetFormat>& dataset_formats() {
  static const std::vector<DatasetFormat> formats{
      {"idx", "files of MNIST, Fashion-MNIST or EMNIST, plain or gzipped",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn&) { return open_idx(config.path, split); },
       DataPath::folder, is_idx,
       [](const DataConfig& config, Split split, const Warn&, const PartOf& part) {
         return cut_where(part, open_idx_images(config.path, split));
       },
       nullptr},
      {"cifar10", "CIFAR-10's binary version",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn&) {
         return open_cifar(config.path, split, 10);
       },
       DataPath::folder, [](const std::filesystem::path& path) { return is_cifar_folder(path, 10); }, nullptr, nullptr},
      {"cifar100", "CIFAR-100's binary version, fine labels",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn&) {
         return open_cifar(config.path, split, 100);
       },
       DataPath::folder, [](const std::filesystem::path& path) { return is_cifar_folder(path, 100); }, nullptr,
       nullptr},
      {"hdf5", "a file of any size, read as it is needed",
       [](const DataConfig& config, Split split, std::uint64_t, const Warn& warn) {
         return open_hdf5_images(config, split, warn, {});
       },
       DataPath::file,
       [](const std::filesystem::path& path) {
         return std::filesystem::is_regular_file(path) && !is_objects_file(path);
       },
       open_hdf5_unlabelled, open_hdf5_images},
      {"objects", "fields around the objects of labelled volumes, for flood-filling networks",
       [](const DataConfig& config, Split split, std::uint64_t seed, const Warn&) {
         return open_objects(config, split, seed);
       },
       DataPath::file, is_objects_file, open_hdf5_unlabelled, nullptr},
      {"synthetic", "patterns made as they are read",
       [](const DataConfig& config, Split split, std::uint64_t seed, const Warn&) {
         return make_synthetic(config, split, seed);
       },
       DataPath::none, nullptr, nullptr, nullptr}};
  return formats;
}

const DatasetFormat* format_found_at(const std::filesystem::path& path) {
  for (const DatasetFormat& format : dataset_formats()) {
    if (*format.found_at != nullptr && format.found_at(path)) return &format;
  }
  return nullptr;
}

DataConfig data_at(const std::string& path, DataConfig config) {
  HALOGRAD_REQUIRE(std::filesystem::exists(path), path, ": no such file or folder");
  const DatasetFormat* const format = format_found_at(path);
  HALOGRAD_REQUIRE(format != nullptr, path, ": is a folder without IDX or CIFAR files");
  config.format = format->name;
  config.path = path;
  return config;
}

std::unique_ptr<Dataset> open_images(const DataConfig& config, Split split, const Warn& warn, const PartOf& part) {
  const DatasetFormat& format = row_of(dataset_formats(), config.format, "data.format");
  if (*format.open_images != nullptr) return format.open_images(config, split, warn, part);
  constexpr std::uint64_t any_seed = 1;
  return cut_where(part, open_dataset(config, split, any_seed, warn));
}

namespace {

const DatasetFormat& checked_format(const DataConfig& config) {
  const DatasetFormat& format = row_of(dataset_formats(), config.format, "data.format");
  HALOGRAD_REQUIRE(format.path == DataPath::none || !config.path.empty(), "data.path is empty: format \"",
                   config.format, "\" needs a ", format.path == DataPath::file ? "file" : "folder");
  return format;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, Split split, std::uint64_t seed, const Warn& warn) {
  return checked_format(config).open(config, split, seed, warn);
}

std::unique_ptr<Dataset> open_parts(const DataConfig& config, Split split, std::uint64_t seed, const Warn& warn,
                                    const PartOf& part) {
  const DatasetFormat& format = checked_format(config);
  if (*format.open_parts != nullptr) return format.open_parts(config, split, warn, part);
  return cut_dataset(format.open(config, split, seed, warn), part);
}

}  // namespace halograd
