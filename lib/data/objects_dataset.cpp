#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
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
#include "data/object_fields.hpp"
#include "data/readers.hpp"
#include "hdf5/objects.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// The values of volumes, as they are stored.
struct Volumes {
  Shape shape;
  std::vector<std::uint8_t> bytes;  ///< of 0..maximum, or
  std::vector<float> floats;
  int maximum = 255;
};

/// Fields cut from volumes that are kept in memory, each voxel labelled by whether it belongs to the field's object.
class ObjectsDataset final : public Dataset {
 public:
  ObjectsDataset(Volumes volumes, const std::array<int, 3>& field, ObjectFields fields, long size)
      : volumes_(std::move(volumes)),
        shape_(field, volumes_.shape.channels, volumes_.shape.dimensions),
        fields_(std::move(fields)),
        size_(size) {}

  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return 2; }
  [[nodiscard]] long labels_per_image() const override { return shape_.pixels(); }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    for (const long index : indices) {
      require_index(index, size_);
      const ObjectField field = fields_.draw(index);
      copy(field, images);
      fields_.label(field, labels);
      images += shape_.values();
      labels += shape_.pixels();
    }
  }

 private:
  void copy(const ObjectField& field, float* image) const {
    const Shape& whole = volumes_.shape;
    for_each_row(whole, field.box, [&](long from, long to, long pixels) {
      const long at = (field.volume * whole.pixels() + from) * whole.channels, values = pixels * whole.channels;
      float* const row = image + to * whole.channels;
      if (volumes_.floats.empty()) {
        bytes_to_floats(volumes_.bytes.data() + at, values, static_cast<float>(volumes_.maximum), row);
      } else {
        std::copy_n(volumes_.floats.data() + at, values, row);
      }
    });
  }

  Volumes volumes_;
  Shape shape_;
  ObjectFields fields_;
  long size_;
};

double product(const std::vector<hsize_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), 1.0, std::multiplies<>());
}

/// data.objects_field along the axes of these volumes.
std::array<int, 3> field_of(const DataConfig& config, const Shape& volume, const std::string& where) {
  const std::vector<int>& given = config.objects_field;
  const auto field = along_axes(given, volume.dimensions, 1);
  HALOGRAD_REQUIRE(field.has_value(), where, ": data.objects_field is [", listed(given), "], expected one number, or ",
                   volume.dimensions, ", one for each axis of volumes of ", to_string(volume));
  HALOGRAD_REQUIRE(*std::min_element(given.begin(), given.end()) > 0, where, ": data.objects_field is [", listed(given),
                   "], expected numbers of at least 1");
  return *field;
}

/// All values of a dataset.
template <class T>
std::vector<T> read_whole(const Hdf5Dataset& dataset, hid_t type, const std::vector<hsize_t>& extents,
                          const std::string& where, hid_t transfer = H5P_DEFAULT) {
  require_held(dataset, sizeof(T), "values", where);
  std::vector<T> values(static_cast<std::size_t>(product(extents)));
  read_box(dataset, type, {std::vector<hsize_t>(extents.size(), 0), extents}, values.data(), "cannot be read", where,
           transfer);
  return values;
}

/// `test`: values that are not finite are refused.
Volumes read_volumes(const Hdf5Images& images, bool test, const std::string& where) {
  Volumes volumes;
  volumes.shape = images.shape;
  volumes.maximum = images.maximum;
  const long values = images.shape.values();
  if (images.bytes) {
    volumes.bytes = read_whole<std::uint8_t>(images.dataset, images.memory_type(), images.extents, where);
  } else {
    volumes.floats = read_whole<float>(images.dataset, images.memory_type(), images.extents, where);
  }
  for (long volume = 0; volume < static_cast<long>(images.extents[0]); ++volume) {
    if (images.bytes) require_within(volumes.bytes.data() + volume * values, values, images.maximum, volume, where);
    if (!images.bytes && test) require_finite(volumes.floats.data() + volume * values, values, volume, where);
  }
  return volumes;
}

/// A number that is no uint32, as text; empty where there is none.
struct OutOfRange {
  std::string found;
};

template <class Whole>
std::string text_of(hid_t type, hid_t whole_type, const void* value) {
  std::array<std::byte, sizeof(Whole)> bytes{};  // of either type: HDF5 converts in place
  std::memcpy(bytes.data(), value, std::min(H5Tget_size(type), bytes.size()));
  if (H5Tconvert(type, whole_type, 1, bytes.data(), nullptr, H5P_DEFAULT) < 0) return "that cannot be converted";
  return std::to_string(std::bit_cast<Whole>(bytes));
}

/// Notes the first value that HDF5 finds out of range, as it is stored.
H5T_conv_ret_t note_out_of_range(H5T_conv_except_t /*kind*/, hid_t from, hid_t /*to*/, void* value, void* /*result*/,
                                 void* noted) {
  auto& out = *static_cast<OutOfRange*>(noted);
  if (out.found.empty()) {
    out.found = H5Tget_sign(from) == H5T_SGN_2 ? text_of<std::int64_t>(from, H5T_NATIVE_INT64, value)
                                               : text_of<std::uint64_t>(from, H5T_NATIVE_UINT64, value);
  }
  return H5T_CONV_HANDLED;
}

std::vector<std::uint32_t> read_objects(const Hdf5Dataset& dataset, const std::vector<hsize_t>& extents,
                                        const std::string& where) {
  OutOfRange out;
  const Hdf5PropertyList transfer(HALOGRAD_HDF5(H5Pcreate(H5P_DATASET_XFER), where, "conversion"));
  HALOGRAD_HDF5(H5Pset_type_conv_cb(transfer, note_out_of_range, &out), where, "conversion");
  std::vector<std::uint32_t> objects = read_whole<std::uint32_t>(dataset, H5T_NATIVE_UINT32, extents, where, transfer);
  HALOGRAD_REQUIRE(out.found.empty(), where, ": has the object number ", out.found, ", expected numbers in 0..",
                   std::numeric_limits<std::uint32_t>::max());
  return objects;
}

}  // namespace

std::unique_ptr<Dataset> open_objects(const DataConfig& config, Split split, std::uint64_t seed) {
  const bool test = split == Split::test;
  const int size = test ? config.objects_test : config.objects_train;
  HALOGRAD_REQUIRE(size > 0, test ? "data.objects_test" : "data.objects_train", " is ", size, ", expected at least 1");
  const Hdf5Session session;
  const Hdf5File file = open_hdf5_file(config.path, "objects");
  const std::string group = test ? "/test" : "/train", where = config.path + ":" + group;
  const std::string at_images = where + "/images", at_objects = where + "/objects";
  const Hdf5Images images = open_image_set(file, group + "/images", at_images);
  const Hdf5Dataset objects = open_images(file, group + "/objects", at_objects);
  const std::vector<hsize_t> expected(images.extents.begin(), images.extents.end() - 1);
  const std::vector<hsize_t> found = extents_of(objects, 2, 4, "as many as the images without channels", at_objects);
  HALOGRAD_REQUIRE(found == expected, at_objects, ": has shape ", listed(found, " x "), ", expected ",
                   listed(expected, " x "), ", one object number per pixel of the images in the same group");
  HALOGRAD_REQUIRE(H5Tget_class(dataset_type(objects, "type", at_objects)) == H5T_INTEGER, at_objects,
                   ": the object numbers are no integers");
  const std::array<int, 3> field = field_of(config, images.shape, at_images);
  const double bytes = product(images.extents) * (images.bytes ? 1 : sizeof(float)) +
                       product(found) * static_cast<double>(sizeof(std::uint32_t));
  HALOGRAD_REQUIRE(bytes <= static_cast<double>(config.cache_memory), where, ": images and objects take ",
                   format("%.0f", bytes),
                   " bytes of memory, expected at most data.cache_memory = ", config.cache_memory);
  const std::uint64_t key = random_bits(random_bits(seed, 0x6f626a65637473ULL), 0);  // "objects": draws of its own
  ObjectFields fields(images.shape, field, read_objects(objects, found, at_objects), config.objects_background,
                      random_bits(key, test ? 2 : 1), at_objects);
  return std::make_unique<ObjectsDataset>(read_volumes(images, test, at_images), field, std::move(fields), size);
}

bool is_objects_file(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const std::string name = path.string();
  const Hdf5Session session;
  try {
    const Hdf5File file = open_hdf5(name, H5F_ACC_RDONLY);
    const auto holds = [&](const std::string& group, const std::string& dataset) {
      return has_link(file, group, name) && has_link(file, group + "/" + dataset, name);
    };
    const auto either = [&](const char* dataset) { return holds("/train", dataset) || holds("/test", dataset); };
    return either("objects") && !either("labels");
  } catch (const Error&) {
    return false;  // no HDF5 file
  }
}

}  // namespace halograd
