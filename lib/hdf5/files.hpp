#pragma once

#include <cstddef>
#include <string>

/// What callers without <hdf5.h> need: HDF5's version, the kind of a file, and files that survive a crash.
namespace halograd {

/// The version of the HDF5 library in use, such as "1.10.8".
std::string hdf5_version();

/// The root attribute `format` of an HDF5 file. Throws Error if the file has none or is no HDF5 file.
std::string read_format(const std::string& path);

/// Creates the file if it does not exist, makes it `bytes` long and reserves its disk blocks if the file system can.
/// Throws Error if there is no room.
void reserve_file(const std::string& path, std::size_t bytes);

/// Reserves disk blocks behind the end of an open file that is about to grow by up to `bytes`; its size stays the same.
/// Throws Error if there is no room.
void reserve_growth(int descriptor, std::size_t bytes, const std::string& path);

/// Gives back what was reserved behind the end of a file. A failure does no harm and is ignored.
void release_reserve(const std::string& path);

/// Replaces `path` by `partial`, so that after a crash or a power cut either the old or the new file is there, whole:
/// fsync of the file, rename, fsync of the folder. Throws Error; `path` is then as it was.
void publish_file(const std::string& partial, const std::string& path);

/// Has names that were made, replaced or removed beside `path` survive a power cut. Throws Error.
void sync_folder_of(const std::string& path);

}  // namespace halograd
