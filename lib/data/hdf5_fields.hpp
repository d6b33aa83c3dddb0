#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hdf5/objects.hpp"

/// What an HDF5 set is made of, opened and checked; all throw Error naming the file and the dataset (`where`).
namespace halograd {

Hdf5File open_hdf5_file(const std::filesystem::path& path);

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

}  // namespace halograd
