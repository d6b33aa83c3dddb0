#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hdf5/handles.hpp"

/// What lies in a file: groups, datasets, attributes. Callers hold an Hdf5Session; everything throws Error naming
/// `file` and the object. Paths are relative to `parent`.
namespace halograd {

Hdf5Group open_group(hid_t parent, const std::string& path, const std::string& file);

/// Creates a group. `ordered`: link_names() later gives its members in the order of their creation. Without
/// `track_times` the same members give the same bytes.
Hdf5Group create_group(hid_t parent, const std::string& path, const std::string& file, bool ordered = false,
                       bool track_times = true);

bool has_link(hid_t parent, const std::string& name, const std::string& file);

/// The names of a group's members, in the order of creation if the file keeps it, else sorted by name.
std::vector<std::string> link_names(const Hdf5Group& group, const std::string& file);

Hdf5Dataset open_hdf5_dataset(hid_t parent, const std::string& path, const std::string& file);

/// How a dataset is stored.
struct DatasetStorage {
  std::vector<hsize_t> chunk{};  ///< empty: contiguous
  std::vector<hsize_t> most{};   ///< the extents that it may grow to; empty: those that it has
  bool deflate = false;          ///< compressed, after the bytes of the values are shuffled
  bool reserve = false;          ///< all its room is taken at once and not filled; else as values are written
  bool track_times = true;       ///< false: the same values give the same bytes
};

/// Creates a dataset with values of `type` in the file; without extents it is a scalar.
Hdf5Dataset create_dataset(hid_t parent, const std::string& path, hid_t type, const std::vector<hsize_t>& extents,
                           const std::string& file, const DatasetStorage& storage = {});

std::vector<hsize_t> dataset_extents(const Hdf5Dataset& dataset, const std::string& object, const std::string& file);
Hdf5Type dataset_type(const Hdf5Dataset& dataset, const std::string& object, const std::string& file);

/// Throws Error where all values, of `value_bytes` each in memory, or their chunks are more than the file can hold,
/// compressed or not: damaged extents are found before memory and time are taken for what they claim. Values that lie
/// in other files are not judged.
void require_held(const Hdf5Dataset& dataset, std::size_t value_bytes, const std::string& object,
                  const std::string& file);

/// The same for all that is kept of a file together, `bytes` in memory: several names may lead to the same values.
void require_held_together(const Hdf5File& opened, std::size_t bytes, const std::string& objects,
                           const std::string& file);

/// Transfers all values of a dataset, which are of `type` in memory.
void read_dataset(const Hdf5Dataset& dataset, hid_t type, void* values, const std::string& object,
                  const std::string& file);
void write_dataset(const Hdf5Dataset& dataset, hid_t type, const void* values, const std::string& object,
                   const std::string& file);

/// A dataset of texts.
void write_strings(hid_t parent, const std::string& path, const std::vector<std::string>& values,
                   const std::string& file);

/// A box of a dataset: `count` values along each axis, from `start` on.
struct Hdf5Box {
  std::vector<hsize_t> start, count;
};

/// Transfers the values of a box, which lie contiguously in memory.
void read_box(const Hdf5Dataset& dataset, hid_t type, const Hdf5Box& box, void* values, const std::string& object,
              const std::string& file, hid_t transfer = H5P_DEFAULT);
void write_box(const Hdf5Dataset& dataset, hid_t type, const Hdf5Box& box, const void* values,
               const std::string& object, const std::string& file);

void write_attribute(hid_t object, const std::string& name, const std::string& value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, double value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, const std::vector<std::uint32_t>& values,
                     const std::string& file);
void write_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values,
                     const std::string& file);

bool has_attribute(hid_t object, const std::string& name, const std::string& file);
std::string read_string_attribute(hid_t object, const std::string& name, const std::string& file);
std::int64_t read_integer_attribute(hid_t object, const std::string& name, const std::string& file);
/// One number, stored as an integer or as a floating-point number.
double read_number_attribute(hid_t object, const std::string& name, const std::string& file);
std::vector<std::uint32_t> read_checksums_attribute(hid_t object, const std::string& name, const std::string& file);

/// Throws Error unless the root attribute `format` says that this is a `format`.
void require_format_name(const Hdf5File& opened, const std::string& format, const std::string& file);

/// Throws Error unless the root attributes `format` and `format_version` say that this is a `format` of at most
/// `version`.
void require_format(const Hdf5File& opened, const std::string& format, std::int64_t version, const std::string& file);

}  // namespace halograd
