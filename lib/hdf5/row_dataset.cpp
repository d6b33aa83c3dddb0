#include "hdf5/row_dataset.hpp"

#include <algorithm>

namespace halograd {
namespace {

constexpr std::size_t value_bytes = 8;
constexpr std::size_t smallest_chunk = 4096, largest_chunk = 65536;

std::size_t row_bytes(std::size_t width) {
  return value_bytes * std::max<std::size_t>(1, width);
}

std::size_t chunk_rows(std::size_t width) {
  constexpr std::size_t rows = 64;
  const std::size_t bytes = std::clamp(rows * row_bytes(width), smallest_chunk, largest_chunk);
  return std::max<std::size_t>(1, bytes / row_bytes(width));
}

std::vector<hsize_t> extents(hsize_t rows, std::size_t width) {
  if (width == 0) return {rows};
  return {rows, width};
}

Hdf5Space selected_rows(const Hdf5Dataset& dataset, const std::string& name, std::size_t first, std::size_t rows,
                        std::size_t width, const std::string& path) {
  Hdf5Space space(HALOGRAD_HDF5(H5Dget_space(dataset), path, name));
  const auto count = extents(rows, width);
  std::vector<hsize_t> start(count.size(), 0);
  start[0] = first;
  HALOGRAD_HDF5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path, name);
  return space;
}

}  // namespace

void make_row_dataset(const Hdf5File& file, const RowDataset& description, const std::string& path) {
  const std::string& name = description.name;
  const std::size_t width = description.width;
  const auto start = extents(0, width), most = extents(H5S_UNLIMITED, width), chunk = extents(chunk_rows(width), width);
  const int dimensions = static_cast<int>(start.size());
  const Hdf5Space space(HALOGRAD_HDF5(H5Screate_simple(dimensions, start.data(), most.data()), path, name));
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(H5P_DATASET_CREATE), path, name));
  HALOGRAD_HDF5(H5Pset_chunk(creation, dimensions, chunk.data()), path, name);
  const Hdf5Dataset dataset(
      HALOGRAD_HDF5(H5Dcreate2(file, name.c_str(), description.integer ? H5T_STD_I64LE : H5T_IEEE_F64LE, space,
                               H5P_DEFAULT, creation, H5P_DEFAULT),
                    path, name));
  write_attribute(dataset, "unit", description.unit, path);
  write_attribute(dataset, "description", description.description, path);
}

std::size_t growth_bytes(std::size_t rows, std::size_t width) {
  const std::size_t chunk = chunk_rows(width) * row_bytes(width);
  return rows * row_bytes(width) + 2 * chunk + 2 * smallest_chunk;  // the index grows by pieces of a few KiB at most
}

void append_rows(const Hdf5Dataset& dataset, const std::string& name, std::size_t rows, std::size_t width,
                 const double* values, const std::string& path) {
  if (rows == 0) return;
  const hsize_t present = dataset_extents(dataset, name, path)[0];
  HALOGRAD_HDF5(H5Dset_extent(dataset, extents(present + rows, width).data()), path, name);
  const Hdf5Space space = selected_rows(dataset, name, present, rows, width, path);
  HALOGRAD_HDF5(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, make_space(extents(rows, width)), space, H5P_DEFAULT, values),
                path, name);
  HALOGRAD_HDF5(H5Dflush(dataset), path, name);
}

std::vector<double> read_rows(const Hdf5Dataset& dataset, const std::string& name, std::size_t first, std::size_t rows,
                              std::size_t width, const std::string& path) {
  std::vector<double> values(rows * std::max<std::size_t>(1, width));
  if (rows == 0) return values;
  const Hdf5Space space = selected_rows(dataset, name, first, rows, width, path);
  HALOGRAD_HDF5(
      H5Dread(dataset, H5T_NATIVE_DOUBLE, make_space(extents(rows, width)), space, H5P_DEFAULT, values.data()), path,
      name);
  return values;
}

}  // namespace halograd
