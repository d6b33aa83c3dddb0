#pragma once

#include <cstddef>
#include <string>

namespace halograd {

/// Makes the file, where there is none, and `bytes` long, with its disk blocks reserved where the file system can.
/// Throws Error where there is no room.
void reserve_file(const std::string& path, std::size_t bytes);

/// The same for an open file that is about to grow by up to `bytes`; its size stays.
void reserve_growth(int descriptor, std::size_t bytes, const std::string& path);

/// Gives back what was reserved behind the end of a file. Nothing is lost where it cannot.
void release_reserve(const std::string& path);

/// Puts `partial` in the place of `path`, so that after a crash or a power cut either the old or the new file is there,
/// whole: fsync of the file, rename, fsync of the folder. Throws Error; `path` is then as it was.
void publish_file(const std::string& partial, const std::string& path);

}  // namespace halograd
