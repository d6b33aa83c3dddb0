#pragma once

#include <string>

namespace halograd {

/// Reserves the disk blocks of a file that may have holes, where the file system can: a full disk shows here, on one
/// rank, and not in the middle of a parallel write. Throws Error where there is no room.
void reserve_blocks(const std::string& path);

/// Puts `partial` in the place of `path`, so that after a crash or a power cut either the old or the new file is there,
/// whole: fsync of the file, rename, fsync of the folder. Throws Error; `path` is then as it was.
void publish_file(const std::string& partial, const std::string& path);

}  // namespace halograd
