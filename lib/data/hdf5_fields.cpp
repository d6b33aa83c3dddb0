#include "data/hdf5_fields.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/error.hpp"

namespace halograd {

namespace fs = std::filesystem;

using Handle = Hdf5Object;

Handle open_hdf5_file(const fs::path& path) {
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

bool is_byte(const Handle& dataset) {
  const Handle type(H5Dget_type(dataset.id()), H5Tclose);
  return H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_sign(type.id()) == H5T_SGN_NONE &&
         H5Tget_size(type.id()) == 1;
}

std::string extents_text(const std::vector<hsize_t>& extents) {
  std::string line;
  for (const hsize_t extent : extents) line += (line.empty() ? "" : " x ") + std::to_string(extent);
  return line;
}

}  // namespace halograd
