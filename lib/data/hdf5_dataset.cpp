#include <hdf5.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"
#include "support/hdf5_lock.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

/// Holds HDF5's lock and keeps the library from printing: what it says goes into an Error instead.
class Session {
 public:
  Session() : lock_(hdf5_lock()) {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Session() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost entry of the library's error stack, which says most.
std::string reason() {
  std::string text = "no reason given";
  const auto take_first = [](unsigned n, const H5E_error2_t* entry, void* out) -> herr_t {
    if (n == 0 && entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text;
}

class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ < 0) return;
    const Session session;
    close_(id_);
  }
  [[nodiscard]] hid_t id() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

Handle open_file(const fs::path& path) {
  HALOGRAD_REQUIRE(fs::exists(path), "data.path: ", path.string(), ": no such file, expected HDF5 with /train/images, ",
                   "/train/labels, /test/images and /test/labels");
  HALOGRAD_REQUIRE(fs::is_regular_file(path), "data.path: ", path.string(), ": is not a file, expected one of HDF5");
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  HALOGRAD_REQUIRE(file.id() >= 0, path.string(), ": cannot be opened as HDF5 (", fs::file_size(path),
                   " bytes): ", reason());
  return file;
}

Handle open_data(const Handle& file, const std::string& name, const std::string& where) {
  Handle dataset(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  HALOGRAD_REQUIRE(dataset.id() >= 0, where, ": no such dataset: ", reason());
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
  HALOGRAD_REQUIRE(images.id() >= 0, where, ": cannot be opened: ", reason());
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
                   reason());
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
                   ": cannot be read: ", reason());
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
  Hdf5Dataset(const fs::path& path, const std::string& group, Handle file, Labels labels)
      : where_(path.string() + ":" + group + "/images"),
        file_(std::move(file)),
        images_(open_images(file_, group + "/images", where_)),
        labels_(std::move(labels)) {
    const std::vector<hsize_t> extents = extents_of(images_, 3, 5, "4 (N,H,W,C); 5 (N,D,H,W,C) or 3 (N,W,C)", where_);
    HALOGRAD_REQUIRE(extents[0] == labels_.values.size(), where_, ": holds ", extents[0], " images, expected ",
                     labels_.values.size(), ", the number of labels beside it");
    const int axes = static_cast<int>(extents.size()) - 2;
    std::array<int, 3> spatial{1, 1, 1};
    std::transform(extents.begin() + 1, extents.end() - 1, spatial.end() - axes,
                   [](hsize_t extent) { return static_cast<int>(extent); });
    shape_ = {spatial, static_cast<int>(extents.back()), axes};
    const Handle type(H5Dget_type(images_.id()), H5Tclose);
    const bool integer = H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_sign(type.id()) == H5T_SGN_NONE;
    bytes_ = integer && H5Tget_size(type.id()) == 1;
    HALOGRAD_REQUIRE(bytes_ || (H5Tget_class(type.id()) == H5T_FLOAT && H5Tget_size(type.id()) == 4), where_,
                     ": values are of neither uint8 nor float32 type");
    maximum_ = bytes_ ? attribute(images_, "maximum", 255, 255, where_) : 1;
  }

  [[nodiscard]] long size() const override { return static_cast<long>(labels_.values.size()); }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return labels_.classes; }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    if (indices.empty()) return;
    const std::lock_guard<std::mutex> guard(staging_mutex_);
    sort_places(indices);
    stage(indices);
    const long values = shape_.values();
    for (std::size_t i = 0, row = 0; i < places_.size(); ++i) {
      const long index = indices[places_[i]];
      if (i > 0 && index != indices[places_[i - 1]]) ++row;
      float* image = images + static_cast<long>(places_[i]) * values;
      if (bytes_)
        convert(staging_.data() + static_cast<long>(row) * values, index, image);
      else
        take(staging_.data() + static_cast<long>(row) * values * 4, index, image);
      labels[places_[i]] = labels_.values[static_cast<std::size_t>(index)];
    }
  }

 private:
  void sort_places(std::span<const long> indices) const {
    for (const long index : indices) require_index(index, size());
    places_.resize(indices.size());
    std::iota(places_.begin(), places_.end(), std::size_t{0});
    std::sort(places_.begin(), places_.end(), [&](std::size_t a, std::size_t b) { return indices[a] < indices[b]; });
  }

  /// Reads the distinct images into staging_, ascending, neighbouring ones as one run. A read a run takes half the time
  /// of one read of a union of hyperslabs.
  void stage(std::span<const long> indices) const {
    const Session session;
    const Handle space(H5Dget_space(images_.id()), H5Sclose);
    const int rank = H5Sget_simple_extent_ndims(space.id());
    std::array<hsize_t, 5> start{}, count{};
    H5Sget_simple_extent_dims(space.id(), count.data(), nullptr);
    const std::size_t image_bytes = static_cast<std::size_t>(shape_.values()) * (bytes_ ? 1 : sizeof(float));
    staging_.resize(indices.size() * image_bytes);
    std::uint8_t* staged = staging_.data();
    for (std::size_t i = 0; i < places_.size();) {
      const long first = indices[places_[i]];
      long last = first;
      while (i < places_.size() && indices[places_[i]] <= last + 1) last = indices[places_[i++]];
      start[0] = static_cast<hsize_t>(first);
      count[0] = static_cast<hsize_t>(last - first + 1);
      const Handle memory(H5Screate_simple(rank, count.data(), nullptr), H5Sclose);
      const bool read =
          H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0 &&
          H5Dread(images_.id(), bytes_ ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT, memory.id(), space.id(), H5P_DEFAULT,
                  staged) >= 0;
      HALOGRAD_REQUIRE(read, where_, ": cannot read images ", first, " to ", last, ": ", reason());
      staged += count[0] * image_bytes;
    }
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
    std::uint32_t bad = 0;  // counted without a branch, so that the loop vectorises
    constexpr std::uint32_t exponent = 0x7f800000;
    for (long i = 0; i < values; ++i) bad += (std::bit_cast<std::uint32_t>(image[i]) & exponent) == exponent ? 1 : 0;
    if (bad == 0) return;
    const long at = std::find_if(image, image + values, [](float x) { return !std::isfinite(x); }) - image;
    fail(where_, ": image ", index, " has the value ", image[at], " at position ", at, ", expected finite values");
  }

  std::string where_;
  Handle file_;
  Handle images_;
  Labels labels_;
  ImageShape shape_;
  bool bytes_ = true;
  int maximum_ = 255;
  mutable std::mutex staging_mutex_;  // guards what follows; kept between reads to spare their allocation
  mutable std::vector<std::size_t> places_;
  mutable std::vector<std::uint8_t> staging_;
};

}  // namespace

std::unique_ptr<Dataset> open_hdf5(const fs::path& path, Split split) {
  const Session session;
  Handle file = open_file(path);
  Labels labels = read_split_labels(file, split, path);
  return std::make_unique<Hdf5Dataset>(path, split == Split::train ? "/train" : "/test", std::move(file),
                                       std::move(labels));
}

}  // namespace halograd
