#include "data/hdf5_fields.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/error.hpp"

namespace halograd {

namespace fs = std::filesystem;

Hdf5File open_hdf5_file(const fs::path& path) {
  HALOGRAD_REQUIRE(fs::exists(path), "data.path: ", path.string(),
                   ": no such file; expected an HDF5 file with /train/images, ",
                   "/train/labels, /test/images and /test/labels");
  HALOGRAD_REQUIRE(fs::is_regular_file(path), "data.path: ", path.string(), ": is not a file; expected an HDF5 file");
  return open_hdf5(path.string(), H5F_ACC_RDONLY);
}

Hdf5Dataset open_data(const Hdf5File& file, const std::string& name, const std::string& where, hid_t access) {
  Hdf5Dataset dataset(H5Dopen2(file, name.c_str(), access));
  HALOGRAD_REQUIRE(dataset >= 0, where, ": no such dataset: ", hdf5_reason());
  return dataset;
}

Hdf5Dataset open_images(const Hdf5File& file, const std::string& name, const std::string& where) {
  std::size_t bytes = 0;
  {
    Hdf5Dataset dataset = open_data(file, name, where);
    const Hdf5PropertyList properties(HALOGRAD_HDF5(H5Dget_create_plist(dataset), where, "layout"));
    if (H5Pget_layout(properties) != H5D_CHUNKED) return dataset;
    hsize_t chunk[H5S_MAX_RANK];
    const int rank = HALOGRAD_HDF5(H5Pget_chunk(properties, H5S_MAX_RANK, chunk), where, "chunk");
    bytes = H5Tget_size(dataset_type(dataset, "type", where));
    for (int i = 0; i < rank; ++i) bytes *= static_cast<std::size_t>(chunk[i]);
  }
  constexpr std::size_t least = std::size_t{8} << 20U;
  const Hdf5PropertyList access(HALOGRAD_HDF5(H5Pcreate(H5P_DATASET_ACCESS), where, "chunk cache"));
  HALOGRAD_HDF5(
      H5Pset_chunk_cache(access, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, std::max(least, bytes), H5D_CHUNK_CACHE_W0_DEFAULT),
      where, "chunk cache");
  return open_data(file, name, where, access);
}

std::vector<hsize_t> extents_of(const Hdf5Dataset& dataset, int least, int most_dimensions, const char* layout,
                                const std::string& where) {
  std::vector<hsize_t> extents = dataset_extents(dataset, "extents", where);
  const int found = static_cast<int>(extents.size());
  HALOGRAD_REQUIRE(found >= least && found <= most_dimensions, where, ": has ", found, " dimensions, expected ",
                   layout);
  for (int i = 0; i < found; ++i) {
    const hsize_t most = i == 0 ? std::numeric_limits<std::uint32_t>::max() : 65535;
    HALOGRAD_REQUIRE(extents[i] > 0 && extents[i] <= most, where, ": dimension ", i, " is ", extents[i],
                     ", expected 1..", most);
  }
  return extents;
}

int attribute(const Hdf5Dataset& dataset, const char* name, int most, int otherwise, const std::string& where) {
  if (!has_attribute(dataset, name, where)) return otherwise;
  const double value = read_number_attribute(dataset, name, where);
  HALOGRAD_REQUIRE(value >= 1 && value <= most && value == std::floor(value), where, ": attribute ", name, " is ",
                   value, ", expected a whole number in 1..", most);
  return static_cast<int>(value);
}

bool is_byte(const Hdf5Dataset& dataset, const std::string& where) {
  const Hdf5Type type = dataset_type(dataset, "type", where);
  return H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE && H5Tget_size(type) == 1;
}

}  // namespace halograd
