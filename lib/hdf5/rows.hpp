#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hdf5/objects.hpp"

/// Datasets of numbers that grow by rows: (rows), or (rows, width) where `width` is not 0. Beside a writer they are
/// read by others (SWMR), so that what is appended is flushed at once.
namespace halograd {

/// What a row dataset is, for its attributes and its type.
struct RowDataset {
  std::string name;
  std::string unit;  ///< "1": a plain number
  std::string description;
  bool integer = false;  ///< int64, else float64
  std::size_t width = 0;
};

/// Makes it, with no rows, in chunks of at least 4 KiB, so that a short run leaves a small file, and of 64 rows where
/// these are at most 64 KiB, so that a long run of many ranks is not in crumbs.
void make_row_dataset(const Hdf5File& file, const RowDataset& description, const std::string& path);

/// At least the bytes by which appending `rows` rows may let the file grow: the values, a chunk that is begun, and its
/// index.
std::size_t growth_bytes(std::size_t rows, std::size_t width);

/// Appends rows and shows them to readers.
void append_rows(const Hdf5Dataset& dataset, const std::string& name, std::size_t rows, std::size_t width,
                 const double* values, const std::string& path);

/// Rows first to first + rows - 1.
std::vector<double> read_rows(const Hdf5Dataset& dataset, const std::string& name, std::size_t first, std::size_t rows,
                              std::size_t width, const std::string& path);

}  // namespace halograd
