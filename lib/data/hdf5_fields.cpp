#include "data/hdf5_fields.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/error.hpp"

namespace halograd {

namespace fs = std::filesystem;

Hdf5File open_hdf5_file(const fs::path& path, const std::string& beside) {
  HALOGRAD_REQUIRE(fs::exists(path), "data.path: ", path.string(),
                   ": no such file; expected an HDF5 file with /train/images, /train/", beside,
                   ", /test/images and /test/", beside);
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

Hdf5Images open_image_set(const Hdf5File& file, const std::string& name, const std::string& where) {
  Hdf5Images images;
  images.dataset = open_images(file, name, where);
  images.extents = extents_of(images.dataset, 3, 5, "4 (N,H,W,C); 5 (N,D,H,W,C) or 3 (N,W,C)", where);
  const int axes = static_cast<int>(images.extents.size()) - 2;
  std::array<int, 3> spatial{1, 1, 1};
  std::transform(images.extents.begin() + 1, images.extents.end() - 1, spatial.end() - axes,
                 [](hsize_t extent) { return static_cast<int>(extent); });
  images.shape = {spatial, static_cast<int>(images.extents.back()), axes};
  images.bytes = is_byte(images.dataset, where);
  const Hdf5Type type = dataset_type(images.dataset, "images", where);
  HALOGRAD_REQUIRE(images.bytes || (H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) == 4), where,
                   ": the values are neither uint8 nor float32");
  images.maximum = images.bytes ? attribute(images.dataset, "maximum", 255, 255, where) : 1;
  return images;
}

void require_within(const std::uint8_t* image, long values, int maximum, long index, const std::string& where) {
  if (maximum >= 255) return;
  const int largest = *std::max_element(image, image + values);
  HALOGRAD_REQUIRE(largest <= maximum, where, ": image ", index, " has a value of ", largest, ", expected 0..", maximum,
                   " (attribute `maximum`)");
}

void require_finite(const float* image, long values, long index, const std::string& where) {
  const long at = first_not_finite(image, values);
  if (at == values) return;
  fail(where, ": image ", index, " has the value ", image[at], " at position ", at, ", expected finite values");
}

long first_not_finite(const float* values, long count) {
  std::uint32_t bad = 0;  // counted without a branch, so that the loop vectorises
  constexpr std::uint32_t exponent = 0x7f800000;
  for (long i = 0; i < count; ++i) bad += (std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent ? 1 : 0;
  if (bad == 0) return count;
  return std::find_if(values, values + count, [](float x) { return !std::isfinite(x); }) - values;
}

}  // namespace halograd
