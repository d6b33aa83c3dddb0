#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/hdf5_handles.hpp"

/// What an HDF5 set is made of, opened and checked; all throw Error naming the file and the dataset (`where`).
namespace halograd {

Hdf5Object open_hdf5_file(const std::filesystem::path& path);

Hdf5Object open_data(const Hdf5Object& file, const std::string& name, const std::string& where);

/// Opens it with a cache that holds one chunk at least: read in ascending order, no chunk is then decompressed twice in
/// a batch.
Hdf5Object open_images(const Hdf5Object& file, const std::string& name, const std::string& where);

/// `layout`: what is expected, in words.
std::vector<hsize_t> extents_of(const Hdf5Object& dataset, int least, int most_dimensions, const char* layout,
                                const std::string& where);

/// The value of a scalar integer attribute in 1..most, or `otherwise` where there is no such attribute.
int attribute(const Hdf5Object& dataset, const char* name, int most, int otherwise, const std::string& where);

bool is_byte(const Hdf5Object& dataset);

/// "3 x 4"
std::string extents_text(const std::vector<hsize_t>& extents);

}  // namespace halograd
