#include "hdf5/handles.hpp"

#include <array>
#include <cstring>
#include <fstream>

#include "hdf5/durable.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

herr_t keep_first(unsigned position, const H5E_error2_t* error, void* text) {
  if (position == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// HDF5 answers "not a file", "locked" and "cut short" much alike, so what can be told apart without it is.
void require_signature(const std::string& path) {
  constexpr std::array<char, 8> signature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  std::ifstream stream(path, std::ios::binary);
  HALOGRAD_REQUIRE(stream, path, ": cannot be opened: ", system_reason());
  std::array<char, 8> start{};
  stream.read(start.data(), start.size());
  const std::streamsize got = stream.gcount();
  HALOGRAD_REQUIRE(got == 8, path, ": not an HDF5 file: it has only ", got, " bytes, or is no file");
  HALOGRAD_REQUIRE(start == signature, path, ": not an HDF5 file: it does not start with HDF5's signature");
}

void write_scalar(hid_t object, const std::string& name, hid_t type, const void* value, const std::string& file) {
  const Hdf5Space space(HALOGRAD_HDF5(H5Screate(H5S_SCALAR), file, name));
  const Hdf5Attribute attribute(
      HALOGRAD_HDF5(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), file, name));
  HALOGRAD_HDF5(H5Awrite(attribute, type, value), file, name);
}

Hdf5Type variable_string(const std::string& file) {
  Hdf5Type type(HALOGRAD_HDF5(H5Tcopy(H5T_C_S1), file, "string type"));
  HALOGRAD_HDF5(H5Tset_size(type, H5T_VARIABLE), file, "string type");
  HALOGRAD_HDF5(H5Tset_cset(type, H5T_CSET_UTF8), file, "string type");
  return type;
}

Hdf5Attribute open_attribute(hid_t object, const std::string& name, H5T_class_t kind, const std::string& file) {
  HALOGRAD_REQUIRE(has_attribute(object, name, file), file, ": attribute '", name, "' is missing");
  Hdf5Attribute attribute(HALOGRAD_HDF5(H5Aopen(object, name.c_str(), H5P_DEFAULT), file, name));
  const Hdf5Type type(HALOGRAD_HDF5(H5Aget_type(attribute), file, name));
  HALOGRAD_REQUIRE(H5Tget_class(type) == kind, file, ": attribute '", name, "' is not ",
                   kind == H5T_STRING  ? "a string"
                   : kind == H5T_FLOAT ? "a number"
                                       : "an integer");
  return attribute;
}

hssize_t value_count(const Hdf5Attribute& attribute, const std::string& name, const std::string& file) {
  const Hdf5Space space(HALOGRAD_HDF5(H5Aget_space(attribute), file, name));
  return HALOGRAD_HDF5(H5Sget_simple_extent_npoints(space), file, name);
}

}  // namespace

std::unique_lock<std::recursive_mutex> hdf5_session() {
  auto lock = hdf5_lock();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return lock;
}

void fail_hdf5(std::string_view file, std::string_view object, std::string_view call) {
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  fail(file, ": ", object, ": ", call.substr(0, call.find('(')), " failed: ", reason);
}

Hdf5PropertyList serial_file_access(H5F_libver_t low, bool locked) {
  Hdf5PropertyList access(HALOGRAD_HDF5(H5Pcreate(H5P_FILE_ACCESS), "HDF5", "file access"));
  HALOGRAD_HDF5(H5Pset_libver_bounds(access, low, H5F_LIBVER_V110), "HDF5", "file access");
  (void)locked;  // unused where HDF5 cannot be told
#if H5_VERSION_GE(1, 10, 7) && (H5_VERS_MINOR != 12 || H5_VERS_RELEASE > 0)
  // parallel file systems are often mounted without locks; that must not keep anybody from reading
  HALOGRAD_HDF5(H5Pset_file_locking(access, locked, true), "HDF5", "file access");
#endif
  return access;
}

Hdf5File open_hdf5(const std::string& path, unsigned flags) {
  require_signature(path);
  // a writer beside readers takes no lock, or a plot drawn at the wrong moment would end a run; the flags that HDF5
  // keeps in the file still refuse a second writer
  const Hdf5PropertyList access = serial_file_access(H5F_LIBVER_V18, (flags & H5F_ACC_SWMR_WRITE) == 0);
  return Hdf5File(HALOGRAD_HDF5(H5Fopen(path.c_str(), flags, access), path, "file (cut short, damaged or in use?)"));
}

Hdf5File create_hdf5(const std::string& path, H5F_libver_t low, std::size_t bytes) {
  const Hdf5PropertyList access = serial_file_access(low);
  HALOGRAD_HDF5(H5Pset_alignment(access, mebibyte, mebibyte), path, "file access");
  // creating truncates and gives the reserved blocks back: hence an empty file first, then its room, then the open
  reserve_file(path, bytes);
  Hdf5File empty(HALOGRAD_HDF5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), path, "file"));
  HALOGRAD_HDF5(empty.close(), path, "file");
  reserve_file(path, bytes);
  return Hdf5File(HALOGRAD_HDF5(H5Fopen(path.c_str(), H5F_ACC_RDWR, access), path, "file"));
}

Hdf5Group open_group(hid_t parent, const std::string& path, const std::string& file) {
  return Hdf5Group(HALOGRAD_HDF5(H5Gopen2(parent, path.c_str(), H5P_DEFAULT), file, path));
}

Hdf5Dataset open_dataset(hid_t parent, const std::string& path, const std::string& file) {
  return Hdf5Dataset(HALOGRAD_HDF5(H5Dopen2(parent, path.c_str(), H5P_DEFAULT), file, path));
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

std::vector<hsize_t> dataset_extents(const Hdf5Dataset& dataset, const std::string& object, const std::string& file) {
  const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), file, object));
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(HALOGRAD_HDF5(H5Sget_simple_extent_ndims(space), file, object)));
  HALOGRAD_HDF5(H5Sget_simple_extent_dims(space, extents.data(), nullptr), file, object);
  return extents;
}

Hdf5Space make_space(const std::vector<hsize_t>& extents) {
  if (extents.empty()) return Hdf5Space(HALOGRAD_HDF5(H5Screate(H5S_SCALAR), "HDF5", "dataspace"));
  return Hdf5Space(
      HALOGRAD_HDF5(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), "HDF5", "dataspace"));
}

void write_attribute(hid_t object, const std::string& name, const std::string& value, const std::string& file) {
  const Hdf5Type type = variable_string(file);
  const char* text = value.c_str();
  write_scalar(object, name, type, &text, file);
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file) {
  write_scalar(object, name, H5T_STD_I64LE, &value, file);
}

void write_attribute(hid_t object, const std::string& name, double value, const std::string& file) {
  write_scalar(object, name, H5T_IEEE_F64LE, &value, file);
}

void write_attribute(hid_t object, const std::string& name, const std::vector<std::uint32_t>& values,
                     const std::string& file) {
  const Hdf5Space space = make_space({values.size()});
  const Hdf5Attribute attribute(
      HALOGRAD_HDF5(H5Acreate2(object, name.c_str(), H5T_STD_U32LE, space, H5P_DEFAULT, H5P_DEFAULT), file, name));
  HALOGRAD_HDF5(H5Awrite(attribute, H5T_NATIVE_UINT32, values.data()), file, name);
}

bool has_attribute(hid_t object, const std::string& name, const std::string& file) {
  return HALOGRAD_HDF5(H5Aexists(object, name.c_str()), file, name) > 0;
}

std::string read_string_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, H5T_STRING, file);
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
  const Hdf5Attribute attribute = open_attribute(object, name, H5T_INTEGER, file);
  HALOGRAD_REQUIRE(value_count(attribute, name, file) == 1, file, ": attribute '", name, "' is not one integer");
  std::int64_t value = 0;
  HALOGRAD_HDF5(H5Aread(attribute, H5T_NATIVE_INT64, &value), file, name);
  return value;
}

double read_number_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, H5T_FLOAT, file);
  HALOGRAD_REQUIRE(value_count(attribute, name, file) == 1, file, ": attribute '", name, "' is not one number");
  double value = 0;
  HALOGRAD_HDF5(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), file, name);
  return value;
}

std::vector<std::uint32_t> read_checksums_attribute(hid_t object, const std::string& name, const std::string& file) {
  const Hdf5Attribute attribute = open_attribute(object, name, H5T_INTEGER, file);
  std::vector<std::uint32_t> values(static_cast<std::size_t>(value_count(attribute, name, file)));
  HALOGRAD_HDF5(H5Aread(attribute, H5T_NATIVE_UINT32, values.data()), file, name);
  return values;
}

void require_format_name(const Hdf5File& opened, const std::string& format, const std::string& file) {
  HALOGRAD_REQUIRE(has_attribute(opened, "format", file), file, ": an HDF5 file, but no ", format,
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
