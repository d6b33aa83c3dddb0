#include "convert/import_file.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/error.hpp"

namespace halograd {
namespace {

constexpr const char* groups[2] = {"/train", "/test"};
constexpr const char* state_name = "/import_state";
constexpr const char* identity_name = "import_identity";

/// A list for creating an object of the given class that carries no times, so that the same source gives the same
/// bytes.
Hdf5PropertyList timeless(hid_t object_class, const std::string& path, const std::string& object) {
  Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(object_class), path, object));
  HALOGRAD_HDF5(H5Pset_obj_track_times(creation, false), path, object);
  return creation;
}

Hdf5Dataset create_rows(hid_t parent, const std::string& name, hid_t type, const std::vector<hsize_t>& extents,
                        hsize_t chunk_rows, const std::string& path) {
  const Hdf5PropertyList creation = timeless(H5P_DATASET_CREATE, path, name);
  std::vector<hsize_t> chunk = extents, most = extents;
  chunk[0] = chunk_rows;
  HALOGRAD_HDF5(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), path, name);
  HALOGRAD_HDF5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), path, name);
  HALOGRAD_HDF5(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), path, name);
  const Hdf5Space space(
      HALOGRAD_HDF5(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), most.data()), path, name));
  return Hdf5Dataset(
      HALOGRAD_HDF5(H5Dcreate2(parent, name.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), path, name));
}

void write_class_names(hid_t dataset, const std::vector<std::string>& names, const std::string& path) {
  const Hdf5Type type(HALOGRAD_HDF5(H5Tcopy(H5T_C_S1), path, "class_names"));
  HALOGRAD_HDF5(H5Tset_size(type, H5T_VARIABLE), path, "class_names");
  HALOGRAD_HDF5(H5Tset_cset(type, H5T_CSET_UTF8), path, "class_names");
  std::vector<const char*> texts;
  texts.reserve(names.size());
  for (const std::string& name : names) texts.push_back(name.c_str());
  const Hdf5Space space = make_space({names.size()});
  const Hdf5Attribute attribute(
      HALOGRAD_HDF5(H5Acreate2(dataset, "class_names", type, space, H5P_DEFAULT, H5P_DEFAULT), path, "class_names"));
  HALOGRAD_HDF5(H5Awrite(attribute, type, texts.data()), path, "class_names");
}

}  // namespace

ImportFile::ImportFile(std::string path, Hdf5File file) : path_(std::move(path)), file_(std::move(file)) {}

ImportFile ImportFile::create(const std::string& path, const ImportPlan& plan, const ImportShape& shape) {
  const auto lock = hdf5_session();
  const Hdf5PropertyList access = serial_file_access(H5F_LIBVER_V18);
  HALOGRAD_HDF5(H5Pset_alignment(access, mebibyte / 4, mebibyte), path, "file access");
  const Hdf5PropertyList root = timeless(H5P_FILE_CREATE, path, "file");
  ImportFile file(path, Hdf5File(HALOGRAD_HDF5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, root, access), path, "file")));
  file.shape_ = shape;
  write_attribute(file.file_, identity_name, plan.identity, path);
  for (int split = 0; split < 2; ++split) {
    const hsize_t images = plan.items[split].size();
    const Hdf5PropertyList members = timeless(H5P_GROUP_CREATE, path, groups[split]);
    const Hdf5Group group(
        HALOGRAD_HDF5(H5Gcreate2(file.file_, groups[split], H5P_DEFAULT, members, H5P_DEFAULT), path, groups[split]));
    if (images == 0) continue;
    const std::vector<hsize_t> extents{images, static_cast<hsize_t>(shape.height), static_cast<hsize_t>(shape.width),
                                       static_cast<hsize_t>(shape.channels)};
    const hsize_t chunk = std::clamp<hsize_t>(mebibyte / shape.values(), 1, images);
    const Hdf5Dataset values = create_rows(group, "images", H5T_STD_U8LE, extents, chunk, path);
    write_attribute(values, "maximum", std::int64_t{255}, path);
    const Hdf5Dataset labels =
        create_rows(group, "labels", H5T_STD_I32LE, {images}, std::min<hsize_t>(images, 65536), path);
    write_attribute(labels, "classes", static_cast<std::int64_t>(plan.class_names.size()), path);
    write_class_names(labels, plan.class_names, path);
  }
  const Hdf5Space space = make_space({4});
  const Hdf5PropertyList creation = timeless(H5P_DATASET_CREATE, path, state_name);
  HALOGRAD_HDF5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), path, state_name);
  const Hdf5Dataset state(HALOGRAD_HDF5(
      H5Dcreate2(file.file_, state_name, H5T_STD_I64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT), path, state_name));
  const std::array<std::int64_t, 4> none{};
  HALOGRAD_HDF5(H5Dwrite(state, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, none.data()), path, state_name);
  HALOGRAD_HDF5(H5Fflush(file.file_, H5F_SCOPE_GLOBAL), path, "file");
  return file;
}

ImportFile ImportFile::resume(const std::string& path, const ImportPlan& plan) {
  const auto lock = hdf5_session();
  ImportFile file(path, open_hdf5(path, H5F_ACC_RDWR));
  HALOGRAD_REQUIRE(has_attribute(file.file_, identity_name, path) && has_link(file.file_, state_name, path), path,
                   ": was not left by an import");
  const std::string identity = read_string_attribute(file.file_, identity_name, path);
  HALOGRAD_REQUIRE(identity == plan.identity, path, ": is of another source (", identity, ")");
  const Hdf5Dataset state = open_dataset(file.file_, state_name, path);
  std::array<std::int64_t, 4> values{};
  HALOGRAD_HDF5(H5Dread(state, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), path, state_name);
  file.state_ = {{values[0], values[1]}, {values[2], values[3]}};
  const std::string images = std::string(groups[plan.items[0].empty() ? 1 : 0]) + "/images";
  const std::vector<hsize_t> extents = dataset_extents(open_dataset(file.file_, images, path), images, path);
  file.shape_ = {static_cast<int>(extents.at(1)), static_cast<int>(extents.at(2)), static_cast<int>(extents.at(3))};
  for (int split = 0; split < 2; ++split)
    HALOGRAD_REQUIRE(file.state_.images[split] >= 0 && file.state_.images[split] <= file.state_.items[split] &&
                         file.state_.items[split] <= static_cast<std::int64_t>(plan.items[split].size()),
                     path, ": ", state_name, " is damaged");
  return file;
}

void ImportFile::write_rows(const char* name, int split, hid_t type, const std::vector<hsize_t>& count,
                            const void* values) {
  const std::string object = std::string(groups[split]) + "/" + name;
  const Hdf5Dataset dataset = open_dataset(file_, object, path_);
  const Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), path_, object));
  std::vector<hsize_t> start(count.size(), 0);
  start[0] = static_cast<hsize_t>(state_.images[split]);
  HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path_,
                object);
  HALOGRAD_HDF5(H5Dwrite(dataset, type, make_space(count), space, H5P_DEFAULT, values), path_, object);
}

void ImportFile::append(int split, const std::vector<std::uint8_t>& images, const std::vector<std::int32_t>& labels,
                        std::int64_t items_done) {
  const auto lock = hdf5_session();
  if (!labels.empty()) {
    const hsize_t count = labels.size();
    write_rows("images", split, H5T_NATIVE_UINT8,
               {count, static_cast<hsize_t>(shape_.height), static_cast<hsize_t>(shape_.width),
                static_cast<hsize_t>(shape_.channels)},
               images.data());
    write_rows("labels", split, H5T_NATIVE_INT32, {count}, labels.data());
    // Before the state: it must not tell of values that are not there.
    HALOGRAD_HDF5(H5Fflush(file_, H5F_SCOPE_GLOBAL), path_, "file");
  }
  state_.items[split] = items_done;
  state_.images[split] += static_cast<std::int64_t>(labels.size());
  const std::array<std::int64_t, 4> values{state_.items[0], state_.items[1], state_.images[0], state_.images[1]};
  const Hdf5Dataset state = open_dataset(file_, state_name, path_);
  HALOGRAD_HDF5(H5Dwrite(state, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), path_, state_name);
  HALOGRAD_HDF5(H5Fflush(file_, H5F_SCOPE_GLOBAL), path_, "file");
}

void ImportFile::finish() {
  const auto lock = hdf5_session();
  for (int split = 0; split < 2; ++split) {
    for (const char* name : {"images", "labels"}) {
      const std::string object = std::string(groups[split]) + "/" + name;
      if (!has_link(file_, object, path_)) continue;
      const Hdf5Dataset dataset = open_dataset(file_, object, path_);
      std::vector<hsize_t> extents = dataset_extents(dataset, object, path_);
      extents[0] = static_cast<hsize_t>(state_.images[split]);
      HALOGRAD_HDF5(H5Dset_extent(dataset, extents.data()), path_, object);
    }
  }
  HALOGRAD_HDF5(H5Ldelete(file_, state_name, H5P_DEFAULT), path_, state_name);
  HALOGRAD_HDF5(H5Adelete(file_, identity_name), path_, identity_name);
  HALOGRAD_HDF5(file_.close(), path_, "file");
}

}  // namespace halograd
