#include "convert/import_file.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

constexpr const char* groups[2] = {"/train", "/test"};
constexpr const char* state_name = "/import_state";
constexpr const char* identity_name = "import_identity";

/// Room for rows that change afterwards, and nothing else does: no times, no filling, no growing index.
Hdf5Dataset create_rows(hid_t parent, const std::string& name, hid_t type, const std::vector<hsize_t>& extents,
                        hsize_t chunk_rows, const std::string& path) {
  DatasetStorage storage;
  storage.chunk = extents;
  storage.chunk[0] = chunk_rows;
  storage.reserve = true;
  storage.track_times = false;
  return create_dataset(parent, name, type, extents, path, storage);
}

/// The extents of a dataset. Throws Error where it has no room for all items of a plan.
std::vector<hsize_t> extents_in(const Hdf5File& file, const std::string& name, std::size_t dimensions,
                                std::size_t items, const std::string& path) {
  constexpr hsize_t most = std::numeric_limits<int>::max();
  const Hdf5Dataset dataset = open_hdf5_dataset(file, name, path);
  require_held(dataset, 1, name, path);
  std::vector<hsize_t> extents = dataset_extents(dataset, name, path);
  const bool fits =
      extents.size() == dimensions && extents[0] == items &&
      std::all_of(extents.begin() + 1, extents.end(), [](hsize_t each) { return each > 0 && each <= most; });
  HALOGRAD_REQUIRE(fits, path, ": ", name, " has the extents ", listed(extents, " x "), ", expected ", dimensions,
                   " of them for ", items, " images");
  return extents;
}

}  // namespace

ImportFile::ImportFile(std::string path, Hdf5File file) : path_(std::move(path)), file_(std::move(file)) {}

ImportFile ImportFile::create(const std::string& path, const ImportPlan& plan, const ImportShape& shape) {
  const Hdf5Session session;
  const Hdf5PropertyList access = serial_file_access(path, H5F_LIBVER_V18);
  HALOGRAD_HDF5(H5Pset_alignment(access, mebibyte / 4, mebibyte), path, "file access");
  // without times, the same source gives the same bytes
  const Hdf5PropertyList root(HALOGRAD_HDF5(H5Pcreate(H5P_FILE_CREATE), path, "file"));
  HALOGRAD_HDF5(H5Pset_obj_track_times(root, false), path, "file");
  ImportFile file(path, Hdf5File(HALOGRAD_HDF5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, root, access), path, "file")));
  file.shape_ = shape;
  write_attribute(file.file_, identity_name, plan.identity, path);
  for (int split = 0; split < 2; ++split) {
    const hsize_t images = plan.items[split].size();
    const Hdf5Group group = create_group(file.file_, groups[split], path, false, false);
    if (images == 0) continue;
    const std::vector<hsize_t> extents{images, static_cast<hsize_t>(shape.height), static_cast<hsize_t>(shape.width),
                                       static_cast<hsize_t>(shape.channels)};
    const hsize_t chunk = std::clamp<hsize_t>(mebibyte / shape.values(), 1, images);
    const Hdf5Dataset values = create_rows(group, "images", H5T_STD_U8LE, extents, chunk, path);
    write_attribute(values, "maximum", std::int64_t{255}, path);
    const Hdf5Dataset labels =
        create_rows(group, "labels", H5T_STD_I32LE, {images}, std::min<hsize_t>(images, 65536), path);
    write_attribute(labels, "classes", static_cast<std::int64_t>(plan.class_names.size()), path);
    write_attribute(labels, "class_names", plan.class_names, path);
  }
  DatasetStorage at_once;
  at_once.reserve = true;
  at_once.track_times = false;
  const Hdf5Dataset state = create_dataset(file.file_, state_name, H5T_STD_I64LE, {4}, path, at_once);
  const std::array<std::int64_t, 4> none{};
  write_dataset(state, H5T_NATIVE_INT64, none.data(), state_name, path);
  HALOGRAD_HDF5(H5Fflush(file.file_, H5F_SCOPE_GLOBAL), path, "file");
  return file;
}

ImportFile ImportFile::resume(const std::string& path, const ImportPlan& plan) {
  const Hdf5Session session;
  ImportFile file(path, open_hdf5(path, H5F_ACC_RDWR));
  HALOGRAD_REQUIRE(has_attribute(file.file_, identity_name, path) && has_link(file.file_, state_name, path), path,
                   ": was not written by an import");
  const std::string identity = read_string_attribute(file.file_, identity_name, path);
  HALOGRAD_REQUIRE(identity == plan.identity, path, ": comes from a different source (", identity, ")");
  const Hdf5Dataset state = open_hdf5_dataset(file.file_, state_name, path);
  std::array<std::int64_t, 4> values{};
  HALOGRAD_REQUIRE(dataset_extents(state, state_name, path) == std::vector<hsize_t>{values.size()}, path, ": ",
                   state_name, " does not hold ", values.size(), " numbers");
  read_dataset(state, H5T_NATIVE_INT64, values.data(), state_name, path);
  file.state_ = {{values[0], values[1]}, {values[2], values[3]}};
  for (int split = 0; split < 2; ++split) {
    const std::size_t items = plan.items[split].size();
    HALOGRAD_REQUIRE(file.state_.images[split] >= 0 && file.state_.images[split] <= file.state_.items[split] &&
                         file.state_.items[split] <= static_cast<std::int64_t>(items),
                     path, ": ", state_name, " is damaged");
    if (items == 0) continue;
    const std::string images = std::string(groups[split]) + "/images", labels = std::string(groups[split]) + "/labels";
    const std::vector<hsize_t> extents = extents_in(file.file_, images, 4, items, path);
    extents_in(file.file_, labels, 1, items, path);
    const ImportShape shape{static_cast<int>(extents[1]), static_cast<int>(extents[2]), static_cast<int>(extents[3])};
    HALOGRAD_REQUIRE(split == 0 || plan.items[0].empty() || shape == file.shape_, path, ": images are of two sizes");
    file.shape_ = shape;
  }
  return file;
}

void ImportFile::write_rows(const char* name, int split, hid_t type, const std::vector<hsize_t>& count,
                            const void* values) {
  const std::string object = std::string(groups[split]) + "/" + name;
  Hdf5Dataset dataset = open_hdf5_dataset(file_, object, path_);
  Hdf5Box box{std::vector<hsize_t>(count.size(), 0), count};
  box.start[0] = static_cast<hsize_t>(state_.images[split]);
  write_box(dataset, type, box, values, object, path_);
  HALOGRAD_HDF5(dataset.close(), path_, object);  // which may be what writes
}

void ImportFile::append(int split, const std::vector<std::uint8_t>& images, const std::vector<std::int32_t>& labels,
                        std::int64_t items_done) {
  const Hdf5Session session;
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
  const Hdf5Dataset state = open_hdf5_dataset(file_, state_name, path_);
  write_dataset(state, H5T_NATIVE_INT64, values.data(), state_name, path_);
  HALOGRAD_HDF5(H5Fflush(file_, H5F_SCOPE_GLOBAL), path_, "file");
}

void ImportFile::finish() {
  const Hdf5Session session;
  for (int split = 0; split < 2; ++split) {
    for (const char* name : {"images", "labels"}) {
      const std::string object = std::string(groups[split]) + "/" + name;
      if (!has_link(file_, object, path_)) continue;
      const Hdf5Dataset dataset = open_hdf5_dataset(file_, object, path_);
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
