#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/hdf5_fields.hpp"
#include "data/hdf5_labels.hpp"
#include "data/hdf5_rows.hpp"
#include "data/readers.hpp"
#include "data/row_stream.hpp"
#include "hdf5/objects.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

class Hdf5FileDataset final : public Dataset {
 public:
  Hdf5FileDataset(const DataConfig& config, const std::string& group, const Hdf5File& file, Hdf5Labels labels,
                  bool finite, Warn warn, const PartOf& part = {})
      : where_(config.path + ":" + group + "/images"), labels_(std::move(labels)), finite_(finite) {
    Hdf5Images images = open_image_set(file, group + "/images", where_);
    const std::vector<hsize_t>& extents = images.extents;
    size_ = static_cast<long>(extents[0]);
    HALOGRAD_REQUIRE(labels_.a_pixel || !labels_.present || extents[0] == labels_.size(), where_, ": holds ", size_,
                     " images, expected ", labels_.size(), ", the number of labels in the same group");
    const hsize_t values = std::accumulate(extents.begin() + 1, extents.end(), hsize_t{1}, std::multiplies<>());
    constexpr auto most = static_cast<hsize_t>(std::numeric_limits<std::int32_t>::max());
    HALOGRAD_REQUIRE(!labels_.present || values <= most, where_, ": an image has more than ", most, " values");
    whole_ = images.shape;
    box_ = part ? part(whole_) : Box::whole(whole_);
    shape_ = part_of(whole_, box_);
    bytes_ = images.bytes;
    maximum_ = images.maximum;
    value_bytes_ = bytes_ ? 1 : sizeof(float);
    auto rows =
        std::make_unique<Hdf5Rows>(config.path, group + "/images", std::move(images.dataset), images.memory_type(),
                                   config.throttle_mb_per_second, 0, rows_part(box_, extents.back()));
    layout_ = rows->layout();
    std::unique_ptr<Hdf5Rows> label_rows;
    if (labels_.a_pixel) label_rows = open_labels(config, file, group, extents);
    const std::size_t label_bytes = label_rows ? label_rows->whole_bytes() : 0, image_bytes = rows->whole_bytes();
    in_memory_ = label_bytes <= config.cache_memory && image_bytes <= config.cache_memory - label_bytes;
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
  [[nodiscard]] ImageShape whole_shape() const override { return whole_; }
  [[nodiscard]] int classes() const override { return labels_.classes; }
  [[nodiscard]] long labels_per_image() const override { return labels_of(shape_); }
  [[nodiscard]] long whole_labels_per_image() const override { return labels_of(whole_); }
  [[nodiscard]] int target_values() const override { return labels_.target_values; }
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
      take(stored.row(index), index, shape_.values(), where_, image);
      if (!labels_.values.empty()) labels[place] = labels_.values[static_cast<std::size_t>(index)];
    }
    if (!label_stream_ || labels_.target_values > 0) return;
    RowStream::Cursor stored_labels(*label_stream_);
    for (const std::size_t place : places) {
      const long index = indices[place];
      take_labels(stored_labels.row(index), index, labels + static_cast<long>(place) * shape_.pixels());
    }
  }

  bool read_part(long index, const Box& box, float* part) const override {
    require_index(index, size());
    Box in_whole = box;
    for (int axis = 0; axis < 3; ++axis) {
      in_whole.begin[axis] += box_.begin[axis];
      in_whole.end[axis] += box_.begin[axis];
    }
    const Hdf5Box stored = rows_part(in_whole, static_cast<hsize_t>(whole_.channels));
    const long values = box.pixels() * whole_.channels;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(values) * value_bytes_);
    stream_->read_part(index, stored, bytes.data());
    const std::string first = listed(std::span(stored.start).first(stored.start.size() - 1));
    take(bytes.data(), index, values, where_ + ", from pixel " + first + " on", part);
    return true;
  }

  void read_targets(std::span<const long> indices, float* targets) const override {
    const long values = labels_per_image() * labels_.target_values;
    const std::vector<std::size_t> places = sorted_places(indices);
    if (!label_stream_) {
      for (const std::size_t place : places)
        std::copy_n(labels_.targets.data() + indices[place] * values, values,
                    targets + static_cast<long>(place) * values);
      return;
    }
    RowStream::Cursor stored(*label_stream_);
    for (const std::size_t place : places) {
      const long index = indices[place];
      float* target = targets + static_cast<long>(place) * values;
      std::memcpy(target, stored.row(index), static_cast<std::size_t>(values) * sizeof(float));
      const long at = first_not_finite(target, values);
      HALOGRAD_REQUIRE(at == values, label_where_, ": image ", index, " has the label ", target[at], " at pixel ",
                       at / labels_.target_values, ", expected finite numbers");
    }
  }

 private:
  [[nodiscard]] long labels_of(const ImageShape& shape) const {
    if (!labels_.present) return 0;
    return labels_.a_pixel ? shape.pixels() : 1;
  }

  /// A box of a row, with all of what each pixel has; 0: a single value, without an axis of its own.
  [[nodiscard]] Hdf5Box rows_part(const Box& box, hsize_t values) const {
    Hdf5Box part;
    for (int axis = 3 - whole_.dimensions; axis < 3; ++axis) {
      part.start.push_back(static_cast<hsize_t>(box.begin[axis]));
      part.count.push_back(static_cast<hsize_t>(box.extents()[axis]));
    }
    if (values == 0) return part;
    part.start.push_back(0);
    part.count.push_back(values);
    return part;
  }

  /// Ascending, so that images of a block, or of neighbouring places in the file, are read one after the other.
  [[nodiscard]] std::vector<std::size_t> sorted_places(std::span<const long> indices) const {
    for (const long index : indices) require_index(index, size());
    std::vector<std::size_t> places(indices.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) { return indices[a] < indices[b]; });
    return places;
  }

  /// A label per pixel, beside images of these extents: as many axes but the channels.
  std::unique_ptr<Hdf5Rows> open_labels(const DataConfig& config, const Hdf5File& file, const std::string& group,
                                        const std::vector<hsize_t>& image_extents) {
    label_where_ = config.path + ":" + group + "/labels";
    Hdf5Dataset labels = open_images(file, group + "/labels", label_where_);
    std::vector<hsize_t> expected(image_extents.begin(), image_extents.end() - 1);
    const auto values = static_cast<hsize_t>(labels_.target_values);
    const std::vector<hsize_t> found =
        extents_of(labels, 2, values > 0 ? 5 : 4, "as many as the images without channels", label_where_);
    if (values > 0 && found.size() > expected.size()) expected.push_back(values);
    HALOGRAD_REQUIRE(found == expected, label_where_, ": has shape ", listed(found, " x "), ", expected ",
                     listed(expected, " x "), ", one label per pixel of the images in the same group");
    label_bytes_ = is_byte(labels, label_where_);
    const hid_t integer = label_bytes_ ? H5T_NATIVE_UINT8 : H5T_NATIVE_INT32;
    return std::make_unique<Hdf5Rows>(config.path, group + "/labels", std::move(labels),
                                      values > 0 ? H5T_NATIVE_FLOAT : integer, config.throttle_mb_per_second,
                                      layout_.block_rows,
                                      rows_part(box_, expected.size() == image_extents.size() ? values : 0));
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

  /// The first `values` of an image or of a part of it, as they are stored; `where` names them.
  void take(const std::uint8_t* staged, long index, long values, const std::string& where, float* image) const {
    if (bytes_) {
      require_within(staged, values, maximum_, index, where);
      bytes_to_floats(staged, values, static_cast<float>(maximum_), image);
      return;
    }
    std::memcpy(image, staged, static_cast<std::size_t>(values) * sizeof(float));
    if (finite_) require_finite(image, values, index, where);
  }

  std::string where_;
  Hdf5Labels labels_;
  ImageShape whole_, shape_;  // of images, and of their parts
  Box box_;                   // which these are
  bool finite_;               // refuse values that are not
  bool bytes_ = true;
  std::size_t value_bytes_ = 1;
  int maximum_ = 255;
  long size_ = 0;
  BlockLayout layout_;  // of the images
  bool in_memory_ = false;
  std::string label_where_;
  bool label_bytes_ = false;
  std::unique_ptr<RowStream> stream_, label_stream_;  // of labels: where they are one per pixel
};

}  // namespace

std::unique_ptr<Dataset> open_hdf5_unlabelled(const DataConfig& config, Split split, const Warn& warn,
                                              const PartOf& part) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5_file(config.path, "labels");
  const std::string group = split == Split::train ? "/train" : "/test";
  const bool alone = has_link(file, "images", config.path);
  HALOGRAD_REQUIRE(alone || (has_link(file, group, config.path) && has_link(file, group + "/images", config.path)),
                   config.path, ": has no dataset /images or ", group, "/images");
  Hdf5Labels none;
  none.present = false;
  return std::make_unique<Hdf5FileDataset>(config, alone ? "" : group, file, std::move(none), true, warn, part);
}

std::unique_ptr<Dataset> open_hdf5_images(const DataConfig& config, Split split, const Warn& warn, const PartOf& part) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5_file(config.path, "labels");
  Hdf5Labels labels = read_labels(file, split, config.path);
  return std::make_unique<Hdf5FileDataset>(config, split == Split::train ? "/train" : "/test", file, std::move(labels),
                                           split == Split::test, warn, part);
}

}  // namespace halograd
