#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/hdf5_handles.hpp"
#include "data/hdf5_rows.hpp"
#include "data/readers.hpp"
#include "data/row_stream.hpp"
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
  std::vector<std::int32_t> values;  ///< one an image; empty: one a pixel, read as they are needed
  int classes = 0;                   ///< 0: the file does not say
  [[nodiscard]] bool a_pixel() const { return values.empty(); }
};

Labels read_labels(const Handle& file, const std::string& group, const fs::path& path) {
  const std::string where = path.string() + ":" + group + "/labels";
  const Handle dataset = open_data(file, group + "/labels", where);
  const auto extents = extents_of(dataset, 1, 4, "1 (N), or with a label a pixel 2 to 4 (N,[D,[H,]]W)", where);
  const auto count = static_cast<std::size_t>(extents[0]);
  const Handle type(H5Dget_type(dataset.id()), H5Tclose);
  HALOGRAD_REQUIRE(H5Tget_class(type.id()) == H5T_INTEGER, where, ": is not of an integer type");
  if (extents.size() > 1) {  // too many to look through for the largest
    HALOGRAD_REQUIRE(H5Aexists(dataset.id(), "classes") > 0, where,
                     ": has a label a pixel, and no attribute `classes`");
    return {{}, attribute(dataset, "classes", std::numeric_limits<std::int32_t>::max(), 0, where)};
  }
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
  HALOGRAD_REQUIRE(test.a_pixel() == training.a_pixel(), path.string(), ":/test/labels: has a label ",
                   test.a_pixel() ? "a pixel" : "an image", ", those of /train are one ",
                   training.a_pixel() ? "a pixel" : "an image");
  for (std::size_t i = 0; i < test.values.size(); ++i)
    HALOGRAD_REQUIRE(test.values[i] < training.classes, path.string(), ":/test/labels: label at index ", i, " is ",
                     test.values[i], ", expected one in 0..", training.classes - 1);
  test.classes = training.classes;
  return test;
}

bool is_byte(const Handle& dataset) {
  const Handle type(H5Dget_type(dataset.id()), H5Tclose);
  return H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_sign(type.id()) == H5T_SGN_NONE &&
         H5Tget_size(type.id()) == 1;
}

class Hdf5Dataset final : public Dataset {
 public:
  Hdf5Dataset(const DataConfig& config, const std::string& group, const Handle& file, Labels labels, bool finite,
              Warn warn)
      : where_(config.path + ":" + group + "/images"), labels_(std::move(labels)), finite_(finite) {
    Handle images = open_images(file, group + "/images", where_);
    const std::vector<hsize_t> extents = extents_of(images, 3, 5, "4 (N,H,W,C); 5 (N,D,H,W,C) or 3 (N,W,C)", where_);
    size_ = static_cast<long>(extents[0]);
    HALOGRAD_REQUIRE(labels_.a_pixel() || extents[0] == labels_.values.size(), where_, ": holds ", size_,
                     " images, expected ", labels_.values.size(), ", the number of labels beside it");
    const int axes = static_cast<int>(extents.size()) - 2;
    std::array<int, 3> spatial{1, 1, 1};
    std::transform(extents.begin() + 1, extents.end() - 1, spatial.end() - axes,
                   [](hsize_t extent) { return static_cast<int>(extent); });
    const hsize_t values = std::accumulate(extents.begin() + 1, extents.end(), hsize_t{1}, std::multiplies<>());
    constexpr auto most = static_cast<hsize_t>(std::numeric_limits<std::int32_t>::max());
    HALOGRAD_REQUIRE(values <= most, where_, ": an image has more than ", most, " values");
    shape_ = {spatial, static_cast<int>(extents.back()), axes};
    bytes_ = is_byte(images);
    const Handle type(H5Dget_type(images.id()), H5Tclose);
    HALOGRAD_REQUIRE(bytes_ || (H5Tget_class(type.id()) == H5T_FLOAT && H5Tget_size(type.id()) == 4), where_,
                     ": values are of neither uint8 nor float32 type");
    maximum_ = bytes_ ? attribute(images, "maximum", 255, 255, where_) : 1;
    auto rows = std::make_unique<Hdf5Rows>(config.path, group + "/images", std::move(images),
                                           bytes_ ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT, config.throttle_mb_per_second);
    layout_ = rows->layout();
    std::unique_ptr<Hdf5Rows> label_rows;
    if (labels_.a_pixel()) label_rows = open_labels(config, file, group, extents);
    const std::size_t label_bytes = label_rows ? label_rows->layout().bytes() : 0;
    in_memory_ = label_bytes <= config.cache_memory && layout_.bytes() <= config.cache_memory - label_bytes;
    // the caches share what there is as their rows are long
    const std::size_t row_bytes = layout_.row_bytes + (label_rows ? label_rows->layout().row_bytes : 0);
    const auto of_images =
        static_cast<std::size_t>(static_cast<double>(config.cache_memory) * static_cast<double>(layout_.row_bytes) /
                                 static_cast<double>(row_bytes));
    const std::size_t memory = label_rows && !in_memory_ ? of_images : config.cache_memory;
    if (label_rows) {
      label_stream_ = std::make_unique<RowStream>(
          std::move(label_rows), config, in_memory_ ? label_bytes : config.cache_memory - memory, in_memory_, warn);
    }
    stream_ = std::make_unique<RowStream>(std::move(rows), config, memory, in_memory_, std::move(warn));
  }

  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return labels_.classes; }
  [[nodiscard]] long labels_per_image() const override { return labels_.a_pixel() ? shape_.pixels() : 1; }
  [[nodiscard]] long block_images() const override { return layout_.block_rows; }
  [[nodiscard]] bool in_memory() const override { return in_memory_; }
  void expect(std::span<const long> order) const override {
    stream_->expect(order);
    if (label_stream_) label_stream_->expect(order);
  }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    const std::vector<std::size_t> places = sorted_places(indices);
    RowStream::Cursor stored(*stream_);
    for (const std::size_t place : places) {
      const long index = indices[place];
      float* image = images + static_cast<long>(place) * shape_.values();
      bytes_ ? convert(stored.row(index), index, image) : take(stored.row(index), index, image);
      if (!label_stream_) labels[place] = labels_.values[static_cast<std::size_t>(index)];
    }
    if (!label_stream_) return;
    RowStream::Cursor stored_labels(*label_stream_);
    for (const std::size_t place : places) {
      const long index = indices[place];
      take_labels(stored_labels.row(index), index, labels + static_cast<long>(place) * shape_.pixels());
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

  /// A label a pixel, beside images of these extents: as many axes but the channels.
  std::unique_ptr<Hdf5Rows> open_labels(const DataConfig& config, const Handle& file, const std::string& group,
                                        const std::vector<hsize_t>& image_extents) {
    label_where_ = config.path + ":" + group + "/labels";
    Handle labels = open_images(file, group + "/labels", label_where_);
    const auto text = [](const std::vector<hsize_t>& extents) {
      std::string line;
      for (const hsize_t extent : extents) line += (line.empty() ? "" : " x ") + std::to_string(extent);
      return line;
    };
    const std::vector<hsize_t> expected(image_extents.begin(), image_extents.end() - 1);
    const std::vector<hsize_t> found = extents_of(labels, 2, 4, "as many as the images without channels", label_where_);
    HALOGRAD_REQUIRE(found == expected, label_where_, ": is of ", text(found), ", expected ", text(expected),
                     ", a label for each pixel of the images beside it");
    label_bytes_ = is_byte(labels);
    return std::make_unique<Hdf5Rows>(config.path, group + "/labels", std::move(labels),
                                      label_bytes_ ? H5T_NATIVE_UINT8 : H5T_NATIVE_INT32, config.throttle_mb_per_second,
                                      layout_.block_rows);
  }

  void take_labels(const std::uint8_t* staged, long index, std::int32_t* labels) const {
    const long pixels = shape_.pixels();
    if (label_bytes_) {
      std::copy_n(staged, pixels, labels);
    } else {
      std::memcpy(labels, staged, static_cast<std::size_t>(pixels) * sizeof(std::int32_t));
    }
    const auto end = static_cast<std::uint32_t>(labels_.classes);
    const std::int32_t* bad = std::find_if(
        labels, labels + pixels, [end](std::int32_t label) { return static_cast<std::uint32_t>(label) >= end; });
    HALOGRAD_REQUIRE(bad == labels + pixels, label_where_, ": image ", index, " has the label ", *bad, " at pixel ",
                     bad - labels, ", expected one in 0..", labels_.classes - 1);
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
  long size_ = 0;
  BlockLayout layout_;  // of the images
  bool in_memory_ = false;
  std::string label_where_;
  bool label_bytes_ = false;
  std::unique_ptr<RowStream> stream_, label_stream_;  // of labels: where they are one a pixel
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
