#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5/objects.hpp"
#include "kernels/shape.hpp"

/// What an HDF5 set is made of, opened and checked; all throw Error naming the file and the dataset (`where`).
namespace halograd {

/// `beside`: what the set has beside images, such as "labels".
Hdf5File open_hdf5_file(const std::filesystem::path& path, const std::string& beside);

Hdf5Dataset open_data(const Hdf5File& file, const std::string& name, const std::string& where,
                      hid_t access = H5P_DEFAULT);

/// Opens a dataset with a cache that holds at least one chunk: a batch that is read in ascending order then
/// decompresses no chunk twice.
Hdf5Dataset open_images(const Hdf5File& file, const std::string& name, const std::string& where);

/// `layout`: the extents that are expected, in words.
std::vector<hsize_t> extents_of(const Hdf5Dataset& dataset, int least, int most_dimensions, const char* layout,
                                const std::string& where);

/// The value of a scalar integer attribute in 1..most, or `otherwise` if there is no such attribute.
int attribute(const Hdf5Dataset& dataset, const char* name, int most, int otherwise, const std::string& where);

bool is_byte(const Hdf5Dataset& dataset, const std::string& where);

/// A dataset of images, (N,[D,[H,]]W,C), of uint8 or float32.
struct Hdf5Images {
  Hdf5Dataset dataset;
  std::vector<hsize_t> extents;
  Shape shape;        ///< of one image
  bool bytes = true;  ///< uint8; else float32
  int maximum = 255;  ///< the largest 8-bit value, by the attribute `maximum`
  [[nodiscard]] hid_t memory_type() const { return bytes ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT; }
};

/// Opens a dataset of images as open_images does.
Hdf5Images open_image_set(const Hdf5File& file, const std::string& name, const std::string& where);

/// Throws Error unless the values of image `index` are at most `maximum`.
void require_within(const std::uint8_t* image, long values, int maximum, long index, const std::string& where);
/// Throws Error unless the values of image `index` are finite.
void require_finite(const float* image, long values, long index, const std::string& where);

/// The position of the first value that is not finite; `count` if there is none.
long first_not_finite(const float* values, long count);

}  // namespace halograd
