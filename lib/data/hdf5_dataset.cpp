#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/block_cache.hpp"
#include "data/byte_dataset.hpp"
#include "data/hdf5_handles.hpp"
#include "data/hdf5_rows.hpp"
#include "data/read_ahead.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

using Handle = Hdf5Object;
using Session = Hdf5Session;

Handle open_file(const fs::path& path) {
  HALOGRAD_REQUIRE(fs::exists(path), "data.path: ", path.string(), ": no such file, expected HDF5 with /train/images, ",
                   "/train/labels, /test/images and /test/labels");
  HALOGRAD_REQUIRE(fs::is_regular_file(path), "data.path: ", path.string(), ": is not a file, expected one of HDF5");
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  HALOGRAD_REQUIRE(file.id() >= 0, path.string(), ": cannot be opened as HDF5 (", fs::file_size(path),
                   " bytes): ", hdf5_reason());
  return file;
}

Handle open_data(const Handle& file, const std::string& name, const std::string& where) {
  Handle dataset(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  HALOGRAD_REQUIRE(dataset.id() >= 0, where, ": no such dataset: ", hdf5_reason());
  return dataset;
}

/// Opens the images with a cache that holds one chunk at least: read in ascending order, no chunk is then decompressed
/// twice in a batch.
Handle open_images(const Handle& file, const std::string& name, const std::string& where) {
  std::size_t bytes = 0;
  {
    const Handle dataset = open_data(file, name, where);
    const Handle properties(H5Dget_create_plist(dataset.id()), H5Pclose);
    if (H5Pget_layout(properties.id()) != H5D_CHUNKED) return open_data(file, name, where);
    hsize_t chunk[H5S_MAX_RANK];
    const int rank = H5Pget_chunk(properties.id(), H5S_MAX_RANK, chunk);
    const Handle type(H5Dget_type(dataset.id()), H5Tclose);
    bytes = H5Tget_size(type.id());
    for (int i = 0; i < rank; ++i) bytes *= static_cast<std::size_t>(chunk[i]);
  }
  constexpr std::size_t least = std::size_t{8} << 20U;
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.id(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, std::max(least, bytes), H5D_CHUNK_CACHE_W0_DEFAULT);
  Handle images(H5Dopen2(file.id(), name.c_str(), access.id()), H5Dclose);
  HALOGRAD_REQUIRE(images.id() >= 0, where, ": cannot be opened: ", hdf5_reason());
  return images;
}

std::vector<hsize_t> extents_of(const Handle& dataset, int least, int most_dimensions, const char* layout,
                                const std::string& where) {
  const Handle space(H5Dget_space(dataset.id()), H5Sclose);
  const int found = H5Sget_simple_extent_ndims(space.id());
  HALOGRAD_REQUIRE(found >= least && found <= most_dimensions, where, ": has ", found, " dimensions, expected ",
                   layout);
  std::vector<hsize_t> extents(static_cast<std::size_t>(found));
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  for (int i = 0; i < found; ++i) {
    const hsize_t most = i == 0 ? std::numeric_limits<std::uint32_t>::max() : 65535;
    HALOGRAD_REQUIRE(extents[i] > 0 && extents[i] <= most, where, ": dimension ", i, " is ", extents[i],
                     ", expected 1..", most);
  }
  return extents;
}

/// The value of a scalar integer attribute in 1..most, or `otherwise` where there is no such attribute.
int attribute(const Handle& dataset, const char* name, int most, int otherwise, const std::string& where) {
  if (H5Aexists(dataset.id(), name) <= 0) return otherwise;
  const Handle attribute(H5Aopen(dataset.id(), name, H5P_DEFAULT), H5Aclose);
  const Handle space(H5Aget_space(attribute.id()), H5Sclose);
  HALOGRAD_REQUIRE(H5Sget_simple_extent_npoints(space.id()) == 1, where, ": attribute ", name, " is not one number");
  double value = 0;
  HALOGRAD_REQUIRE(H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value) >= 0, where, ": attribute ", name, ": ",
                   hdf5_reason());
  HALOGRAD_REQUIRE(value >= 1 && value <= most && value == std::floor(value), where, ": attribute ", name, " is ",
                   value, ", expected a whole number in 1..", most);
  return static_cast<int>(value);
}

/// Labels in 0..classes-1; classes from the attribute, else from the labels of the training set.
struct Labels {
  std::vector<std::int32_t> values;
  int classes = 0;  ///< 0: the file does not say
};

Labels read_labels(const Handle& file, const std::string& group, const fs::path& path) {
  const std::string where = path.string() + ":" + group + "/labels";
  const Handle dataset = open_data(file, group + "/labels", where);
  const auto count = static_cast<std::size_t>(extents_of(dataset, 1, 1, "1 (N)", where)[0]);
  const Handle type(H5Dget_type(dataset.id()), H5Tclose);
  HALOGRAD_REQUIRE(H5Tget_class(type.id()) == H5T_INTEGER, where, ": is not of an integer type");
  std::vector<long long> wide(count);
  HALOGRAD_REQUIRE(H5Dread(dataset.id(), H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, wide.data()) >= 0, where,
                   ": cannot be read: ", hdf5_reason());
  constexpr int most_classes = std::numeric_limits<std::int32_t>::max();
  Labels labels;
  labels.classes = attribute(dataset, "classes", most_classes, 0, where);
  const long long end = labels.classes > 0 ? labels.classes : most_classes;
  for (std::size_t i = 0; i < count; ++i)
    HALOGRAD_REQUIRE(wide[i] >= 0 && wide[i] < end, where, ": label at index ", i, " is ", wide[i],
                     ", expected one in 0..", end - 1);
  labels.values.assign(wide.begin(), wide.end());
  return labels;
}

Labels read_split_labels(const Handle& file, Split split, const fs::path& path) {
  Labels training = read_labels(file, "/train", path);
  if (training.classes == 0) {
    const LabelScan scan = scan_labels(training.values);
    HALOGRAD_REQUIRE(scan.first_beyond < 0, path.string(), ":/train/labels: label at index ", scan.first_beyond, " is ",
                     training.values[static_cast<std::size_t>(std::max(0L, scan.first_beyond))],
                     " but no training image has label ", scan.classes,
                     "; expected labels 0, 1, 2, ... without a gap, or the attribute `classes`");
    training.classes = scan.classes;
  }
  if (split == Split::train) return training;
  Labels test = read_labels(file, "/test", path);
  for (std::size_t i = 0; i < test.values.size(); ++i)
    HALOGRAD_REQUIRE(test.values[i] < training.classes, path.string(), ":/test/labels: label at index ", i, " is ",
                     test.values[i], ", expected one in 0..", training.classes - 1);
  test.classes = training.classes;
  return test;
}

class Hdf5Dataset final : public Dataset {
 public:
  Hdf5Dataset(const DataConfig& config, const std::string& group, const Handle& file, Labels labels, bool finite,
              Warn warn)
      : where_(config.path + ":" + group + "/images"), labels_(std::move(labels)), finite_(finite) {
    Handle images = open_images(file, group + "/images", where_);
    const std::vector<hsize_t> extents = extents_of(images, 3, 5, "4 (N,H,W,C); 5 (N,D,H,W,C) or 3 (N,W,C)", where_);
    HALOGRAD_REQUIRE(extents[0] == labels_.values.size(), where_, ": holds ", extents[0], " images, expected ",
                     labels_.values.size(), ", the number of labels beside it");
    const int axes = static_cast<int>(extents.size()) - 2;
    std::array<int, 3> spatial{1, 1, 1};
    std::transform(extents.begin() + 1, extents.end() - 1, spatial.end() - axes,
                   [](hsize_t extent) { return static_cast<int>(extent); });
    shape_ = {spatial, static_cast<int>(extents.back()), axes};
    const Handle type(H5Dget_type(images.id()), H5Tclose);
    const bool integer = H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_sign(type.id()) == H5T_SGN_NONE;
    bytes_ = integer && H5Tget_size(type.id()) == 1;
    HALOGRAD_REQUIRE(bytes_ || (H5Tget_class(type.id()) == H5T_FLOAT && H5Tget_size(type.id()) == 4), where_,
                     ": values are of neither uint8 nor float32 type");
    maximum_ = bytes_ ? attribute(images, "maximum", 255, 255, where_) : 1;
    rows_ = std::make_unique<Hdf5Rows>(config.path, group + "/images", std::move(images),
                                       bytes_ ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT, config.throttle_mb_per_second);
    layout_ = rows_->layout();
    in_memory_ = layout_.bytes() <= config.cache_memory;
    cache_ = std::make_unique<BlockCache>(*rows_, config.cache_memory, config.cache_folder, std::move(warn));
    // What is shuffled together now, and what will be after it. A share may begin and end inside a block.
    const long held = 2L * (config.shuffle_window + 2L);
    read_ahead_ =
        std::make_unique<ReadAhead>(*cache_, config.readers, in_memory_ ? std::max(held, layout_.blocks()) : held);
  }

  [[nodiscard]] long size() const override { return static_cast<long>(labels_.values.size()); }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return labels_.classes; }
  [[nodiscard]] long block_images() const override { return layout_.block_rows; }
  [[nodiscard]] bool in_memory() const override { return in_memory_; }
  void expect(std::span<const long> order) const override { read_ahead_->start(order); }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    std::vector<std::size_t> places = sorted_places(indices);
    const long values = shape_.values();
    std::vector<std::uint8_t> row(layout_.row_bytes);
    Block block;
    long current = -1;
    for (const std::size_t place : places) {
      const long index = indices[place];
      if (Block ahead = read_ahead_->take(index)) {
        block = std::move(ahead);
        current = layout_.block_of(index);
      } else if (layout_.block_of(index) != current) {
        current = cache_->keeps(layout_.block_of(index)) ? layout_.block_of(index) : -1;
        if (current >= 0) block = cache_->get(current);
      }
      const std::uint8_t* stored = row.data();
      if (current >= 0) {
        stored = block->data() + static_cast<std::size_t>(index - layout_.rows_of(current).begin) * layout_.row_bytes;
      } else {  // far from the others and not to be kept: the image alone
        rows_->read(index, 1, row.data());
      }
      float* image = images + static_cast<long>(place) * values;
      bytes_ ? convert(stored, index, image) : take(stored, index, image);
      labels[place] = labels_.values[static_cast<std::size_t>(index)];
    }
  }

 private:
  /// Ascending, so that images of a block, or of neighbouring places in the file, are read one after the other.
  [[nodiscard]] std::vector<std::size_t> sorted_places(std::span<const long> indices) const {
    for (const long index : indices) require_index(index, size());
    std::vector<std::size_t> places(indices.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) { return indices[a] < indices[b]; });
    return places;
  }

  void convert(const std::uint8_t* staged, long index, float* image) const {
    const long values = shape_.values();
    if (maximum_ < 255) {
      const int largest = *std::max_element(staged, staged + values);
      HALOGRAD_REQUIRE(largest <= maximum_, where_, ": image ", index, " has a value of ", largest, ", expected 0..",
                       maximum_, " (attribute `maximum`)");
    }
    bytes_to_floats(staged, values, static_cast<float>(maximum_), image);
  }

  void take(const std::uint8_t* staged, long index, float* image) const {
    const long values = shape_.values();
    std::memcpy(image, staged, static_cast<std::size_t>(values) * sizeof(float));
    if (!finite_) return;
    std::uint32_t bad = 0;  // counted without a branch, so that the loop vectorises
    constexpr std::uint32_t exponent = 0x7f800000;
    for (long i = 0; i < values; ++i) bad += (std::bit_cast<std::uint32_t>(image[i]) & exponent) == exponent ? 1 : 0;
    if (bad == 0) return;
    const long at = std::find_if(image, image + values, [](float x) { return !std::isfinite(x); }) - image;
    fail(where_, ": image ", index, " has the value ", image[at], " at position ", at, ", expected finite values");
  }

  std::string where_;
  Labels labels_;
  ImageShape shape_;
  bool finite_;  // refuse values that are not
  bool bytes_ = true;
  int maximum_ = 255;
  std::unique_ptr<Hdf5Rows> rows_;
  BlockLayout layout_;
  bool in_memory_ = false;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<ReadAhead> read_ahead_;
};

}  // namespace

std::unique_ptr<Dataset> open_hdf5(const DataConfig& config, Split split, Warn warn) {
  const Session session;
  const Handle file = open_file(config.path);
  Labels labels = read_split_labels(file, split, config.path);
  return std::make_unique<Hdf5Dataset>(config, split == Split::train ? "/train" : "/test", file, std::move(labels),
                                       split == Split::test, std::move(warn));
}

}  // namespace halograd
