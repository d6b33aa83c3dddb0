#include "hdf5/objects.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// A dataspace; without extents that of a scalar.
Hdf5Space make_space(const std::vector<hsize_t>& extents, const std::vector<hsize_t>& most, const std::string& object,
                     const std::string& file) {
  if (extents.empty()) return Hdf5Space(HALOGRAD_HDF5(H5Screate(H5S_SCALAR), file, object));
  return Hdf5Space(HALOGRAD_HDF5(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), most.empty() ? nullptr : most.data()), file,
      object));
}

Hdf5Space select(const Hdf5Dataset& dataset, const Hdf5Box& box, const std::string& object, const std::string& file) {
  Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), file, object));
  HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, box.start.data(), nullptr, box.count.data(), nullptr), file,
                object);
  return space;
}

/// `values` are as they lie in the file; without extents there is one.
void write_values(hid_t object, const std::string& name, const std::vector<hsize_t>& extents, hid_t type,
                  const void* values, const std::string& file) {
  const Hdf5Attribute attribute(HALOGRAD_HDF5(
      H5Acreate2(object, name.c_str(), type, make_space(extents, {}, name, file), H5P_DEFAULT, H5P_DEFAULT), file,
      name));
  HALOGRAD_HDF5(H5Awrite(attribute, type, values), file, name);
}

Hdf5Type variable_string(const std::string& file) {
  Hdf5Type type(HALOGRAD_HDF5(H5Tcopy(H5T_C_S1), file, "string type"));
  HALOGRAD_HDF5(H5Tset_size(type, H5T_VARIABLE), file, "string type");
  HALOGRAD_HDF5(H5Tset_cset(type, H5T_CSET_UTF8), file, "string type");
  return type;
}

std::vector<const char*> pointers_to(const std::vector<std::string>& values) {
  std::vector<const char*> texts;
  texts.reserve(values.size());
  for (const std::string& value : values) texts.push_back(value.c_str());
  return texts;
}

enum class AttributeKind { string, integer, number };

Hdf5Attribute open_attribute(hid_t object, const std::string& name, AttributeKind kind, const std::string& file) {
  HALOGRAD_REQUIRE(has_attribute(object, name, file), file, ": attribute '", name, "' is missing");
  Hdf5Attribute attribute(HALOGRAD_HDF5(H5Aopen(object, name.c_str(), H5P_DEFAULT), file, name));
  const Hdf5Type type(HALOGRAD_HDF5(H5Aget_type(attribute), file, name));
  const H5T_class_t found = H5Tget_class(type);
  if (kind == AttributeKind::string)
    HALOGRAD_REQUIRE(found == H5T_STRING, file, ": attribute '", name, "' is not a string");
  else if (kind == AttributeKind::integer)
    HALOGRAD_REQUIRE(found == H5T_INTEGER, file, ": attribute '", name, "' is not an integer");
  else
    HALOGRAD_REQUIRE(found == H5T_INTEGER || found == H5T_FLOAT, file, ": attribute '", name, "' is not a number");
  return attribute;
}

hssize_t value_count(const Hdf5Attribute& attribute, const std::string& name, const std::string& file) {
  const Hdf5Space space(HALOGRAD_HDF5(H5Aget_space(attribute), file, name));
  return HALOGRAD_HDF5(H5Sget_simple_extent_npoints(space), file, name);
}

constexpr hsize_t most_packed = 1032;  // to 1: what deflate reaches

hsize_t file_bytes(const Hdf5File& opened, const std::string& object, const std::string& file) {
  hsize_t bytes = 0;
  HALOGRAD_HDF5(H5Fget_filesize(opened, &bytes), file, object);
  return bytes;
}

}  // namespace

Hdf5Group open_group(hid_t parent, const std::string& path, const std::string& file) {
  return Hdf5Group(HALOGRAD_HDF5(H5Gopen2(parent, path.c_str(), H5P_DEFAULT), file, path));
}

Hdf5Group create_group(hid_t parent, const std::string& path, const std::string& file, bool ordered, bool track_times) {
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(H5P_GROUP_CREATE), file, path));
  HALOGRAD_HDF5(H5Pset_obj_track_times(creation, track_times), file, path);
  if (ordered)
    HALOGRAD_HDF5(H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), file, path);
  return Hdf5Group(HALOGRAD_HDF5(H5Gcreate2(parent, path.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), file, path));
}

bool has_link(hid_t parent, const std::string& name, const std::string& file) {
  return HALOGRAD_HDF5(H5Lexists(parent, name.c_str(), H5P_DEFAULT), file, name) > 0;
}

std::vector<std::string> link_names(const Hdf5Group& group, const std::string& file) {
  H5G_info_t info;
  HALOGRAD_HDF5(H5Gget_info(group, &info), file, "group");
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Gget_create_plist(group), file, "group"));
  unsigned order = 0;
  HALOGRAD_HDF5(H5Pget_link_creation_order(creation, &order), file, "group");
  const H5_index_t index = (order & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  std::vector<std::string> names;
  for (hsize_t link = 0; link < info.nlinks; ++link) {
    const auto name = [&](char* text, std::size_t bytes) {
      return HALOGRAD_HDF5(H5Lget_name_by_idx(group, ".", index, H5_ITER_INC, link, text, bytes, H5P_DEFAULT), file,
                           "group");
    };
    std::string text(static_cast<std::size_t>(name(nullptr, 0)), '\0');
    name(text.data(), text.size() + 1);
    names.push_back(std::move(text));
  }
  return names;
}

Hdf5Dataset open_hdf5_dataset(hid_t parent, const std::string& path, const std::string& file) {
  return Hdf5Dataset(HALOGRAD_HDF5(H5Dopen2(parent, path.c_str(), H5P_DEFAULT), file, path));
}

Hdf5Dataset create_dataset(hid_t parent, const std::string& path, hid_t type, const std::vector<hsize_t>& extents,
                           const std::string& file, const DatasetStorage& storage) {
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(H5P_DATASET_CREATE), file, path));
  HALOGRAD_HDF5(H5Pset_obj_track_times(creation, storage.track_times), file, path);
  if (!storage.chunk.empty())
    HALOGRAD_HDF5(H5Pset_chunk(creation, static_cast<int>(storage.chunk.size()), storage.chunk.data()), file, path);
  if (storage.deflate) {
    HALOGRAD_HDF5(H5Pset_shuffle(creation), file, path);  // signs and exponents together: they are what deflates
    HALOGRAD_HDF5(H5Pset_deflate(creation, 1), file, path);
  }
  if (storage.reserve) HALOGRAD_HDF5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), file, path);
  if (storage.reserve || storage.deflate) HALOGRAD_HDF5(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), file, path);
  const Hdf5Space space = make_space(extents, storage.most, path, file);
  return Hdf5Dataset(
      HALOGRAD_HDF5(H5Dcreate2(parent, path.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), file, path));
}

std::vector<hsize_t> dataset_extents(const Hdf5Dataset& dataset, const std::string& object, const std::string& file) {
  const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), file, object));
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(HALOGRAD_HDF5(H5Sget_simple_extent_ndims(space), file, object)));
  HALOGRAD_HDF5(H5Sget_simple_extent_dims(space, extents.data(), nullptr), file, object);
  return extents;
}

Hdf5Type dataset_type(const Hdf5Dataset& dataset, const std::string& object, const std::string& file) {
  return Hdf5Type(HALOGRAD_HDF5(H5Dget_type(dataset), file, object));
}

void require_held(const Hdf5Dataset& dataset, std::size_t value_bytes, const std::string& object,
                  const std::string& file) {
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Dget_create_plist(dataset), file, object));
  const H5D_layout_t layout = H5Pget_layout(creation);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(creation) > 0) return;
  const Hdf5File opened(HALOGRAD_HDF5(H5Iget_file_id(dataset), file, object));
  const hsize_t bytes = file_bytes(opened, object, file);
  const std::vector<hsize_t> extents = dataset_extents(dataset, object, file);
  std::vector<hsize_t> chunk = extents;
  if (layout == H5D_CHUNKED) {
    HALOGRAD_HDF5(H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), file, object);
  }
  hsize_t most = most_packed * bytes / value_bytes, most_chunks = bytes / sizeof(haddr_t);  // a chunk has an address
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const hsize_t extent = std::max<hsize_t>(1, extents[axis]), length = std::max<hsize_t>(1, chunk[axis]);
    most /= extent;
    most_chunks /= (extent + length - 1) / length;
  }
  HALOGRAD_REQUIRE(most > 0 && most_chunks > 0, file, ": ", object, " has the extents ", listed(extents, " x "),
                   layout == H5D_CHUNKED ? " in chunks of " + listed(chunk, " x ") : "", ", which a file of ", bytes,
                   " bytes cannot hold");
}

void require_held_together(const Hdf5File& opened, std::size_t bytes, const std::string& objects,
                           const std::string& file) {
  const hsize_t held = file_bytes(opened, objects, file);
  HALOGRAD_REQUIRE(bytes / most_packed <= held, file, ": ", objects, " have ", bytes,
                   " bytes together, which a file of ", held, " bytes cannot hold");
}

void read_dataset(const Hdf5Dataset& dataset, hid_t type, void* values, const std::string& object,
                  const std::string& file) {
  HALOGRAD_HDF5(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), file, object);
}

void write_dataset(const Hdf5Dataset& dataset, hid_t type, const void* values, const std::string& object,
                   const std::string& file) {
  HALOGRAD_HDF5(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), file, object);
  HALOGRAD_HDF5(H5Dflush(dataset), file, object);  // else it may be the closing that fails, which nobody looks at
}

void write_strings(hid_t parent, const std::string& path, const std::vector<std::string>& values,
                   const std::string& file) {
  const Hdf5Type type = variable_string(file);
  write_dataset(create_dataset(parent, path, type, {values.size()}, file), type, pointers_to(values).data(), path,
                file);
}

void read_box(const Hdf5Dataset& dataset, hid_t type, const Hdf5Box& box, void* values, const std::string& object,
              const std::string& file, hid_t transfer) {
  const Hdf5Space selection = select(dataset, box, object, file), memory = make_space(box.count, {}, object, file);
  HALOGRAD_HDF5(H5Dread(dataset, type, memory, selection, transfer, values), file, object);
}

void write_box(const Hdf5Dataset& dataset, hid_t type, const Hdf5Box& box, const void* values,
               const std::string& object, const std::string& file) {
  const Hdf5Space selection = select(dataset, box, object, file), memory = make_space(box.count, {}, object, file);
  HALOGRAD_HDF5(H5Dwrite(dataset, type, memory, selection, H5P_DEFAULT, values), file, object);
}

void write_attribute(hid_t object, const std::string& name, const std::string& value, const std::string& file) {
  const Hdf5Type type = variable_string(file);
  const char* text = value.c_str();
  write_values(object, name, {}, type, &text, file);
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file) {
  write_values(object, name, {}, H5T_STD_I64LE, &value, file);
}

void write_attribute(hid_t object, const std::string& name, double value, const std::string& file) {
  write_values(object, name, {}, H5T_IEEE_F64LE, &value, file);
}

void write_attribute(hid_t object, const std::string& name, const std::vector<std::uint32_t>& values,
                     const std::string& file) {
  write_values(object, name, {values.size()}, H5T_STD_U32LE, values.data(), file);
}

void write_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values,
                     const std::string& file) {
  write_values(object, name, {values.size()}, variable_string(file), pointers_to(values).data(), file);
}

bool has_attribute(hid_t object, const std::string& name, const std::string& file) {
  return HALOGRAD_HDF5(H5Aexists(object, name.c_str()), file, name) > 0;
}

std::string read_string_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, AttributeKind::string, file);
  HALOGRAD_REQUIRE(value_count(attribute, name, file) == 1, file, ": attribute '", name, "' is not one string");
  const Hdf5Type type(HALOGRAD_HDF5(H5Aget_type(attribute), file, name));
  if (HALOGRAD_HDF5(H5Tis_variable_str(type), file, name) > 0) {
    const Hdf5Type memory = variable_string(file);
    HALOGRAD_HDF5(H5Tset_cset(memory, H5Tget_cset(type)), file, name);
    char* text = nullptr;
    HALOGRAD_HDF5(H5Aread(attribute, memory, &text), file, name);
    std::string value = text == nullptr ? "" : text;
    H5free_memory(text);
    return value;
  }
  std::string value(H5Tget_size(type), '\0');
  HALOGRAD_HDF5(H5Aread(attribute, type, value.data()), file, name);
  return value.substr(0, value.find('\0'));
}

std::int64_t read_integer_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, AttributeKind::integer, file);
  HALOGRAD_REQUIRE(value_count(attribute, name, file) == 1, file, ": attribute '", name, "' is not one integer");
  std::int64_t value = 0;
  HALOGRAD_HDF5(H5Aread(attribute, H5T_NATIVE_INT64, &value), file, name);
  return value;
}

double read_number_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, AttributeKind::number, file);
  HALOGRAD_REQUIRE(value_count(attribute, name, file) == 1, file, ": attribute '", name, "' is not one number");
  double value = 0;
  HALOGRAD_HDF5(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), file, name);
  return value;
}

std::vector<std::uint32_t> read_checksums_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, AttributeKind::integer, file);
  std::vector<std::uint32_t> values(static_cast<std::size_t>(value_count(attribute, name, file)));
  HALOGRAD_HDF5(H5Aread(attribute, H5T_NATIVE_UINT32, values.data()), file, name);
  return values;
}

void require_format_name(const Hdf5File& opened, const std::string& format, const std::string& file) {
  HALOGRAD_REQUIRE(has_attribute(opened, "format", file), file, ": is an HDF5 file, but not a ", format,
                   ": its root has no attribute 'format'");
  const std::string found = read_string_attribute(opened, "format", file);
  HALOGRAD_REQUIRE(found == format, file, ": root attribute 'format' is '", found, "', expected '", format, "'");
}

void require_format(const Hdf5File& opened, const std::string& format, std::int64_t version, const std::string& file) {
  require_format_name(opened, format, file);
  const std::int64_t found_version = read_integer_attribute(opened, "format_version", file);
  HALOGRAD_REQUIRE(found_version >= 1 && found_version <= version, file, ": format_version ", found_version, " of ",
                   format, " is not known to this program, which reads up to ", version,
                   "; read it with a newer halograd");
}

}  // namespace halograd
