#include "hdf5/rows.hpp"

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

Hdf5Box box_of(std::size_t first, std::size_t rows, std::size_t width) {
  Hdf5Box box{{first}, extents(rows, width)};
  box.start.resize(box.count.size(), 0);
  return box;
}

}  // namespace

void make_row_dataset(const Hdf5File& file, const RowDataset& description, const std::string& path) {
  const std::string& name = description.name;
  const std::size_t width = description.width;
  DatasetStorage storage;
  storage.chunk = extents(chunk_rows(width), width);
  storage.most = extents(H5S_UNLIMITED, width);
  const Hdf5Dataset dataset = create_dataset(file, name, description.integer ? H5T_STD_I64LE : H5T_IEEE_F64LE,
                                             extents(0, width), path, storage);
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
  write_box(dataset, H5T_NATIVE_DOUBLE, box_of(present, rows, width), values, name, path);
  HALOGRAD_HDF5(H5Dflush(dataset), path, name);
}

std::vector<double> read_rows(const Hdf5Dataset& dataset, const std::string& name, std::size_t first, std::size_t rows,
                              std::size_t width, const std::string& path) {
  std::vector<double> values(rows * std::max<std::size_t>(1, width));
  if (rows > 0) read_box(dataset, H5T_NATIVE_DOUBLE, box_of(first, rows, width), values.data(), name, path);
  return values;
}

}  // namespace halograd
