#include "hdf5/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    HALOGRAD_REQUIRE(descriptor_ >= 0, path, ": cannot be opened: ", system_reason());
  }
  ~Descriptor() { ::close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

void sync_path(const std::string& path) {
  const Descriptor descriptor(path, O_RDONLY);
  // some file systems cannot sync a folder and say EINVAL; there is no more to be done then
  HALOGRAD_REQUIRE(::fsync(descriptor) == 0 || errno == EINVAL, path, ": fsync failed: ", system_reason());
}

void reserve(int descriptor, int mode, ::off_t offset, std::size_t bytes, const std::string& path) {
  if (::fallocate(descriptor, mode, offset, static_cast<::off_t>(bytes)) == 0) return;
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;  // else it is not supported here
  HALOGRAD_REQUIRE(!full, path, ": no room for ", bytes, " bytes: ", system_reason());
}

}  // namespace

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

std::string read_format(const std::string& path) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);  // a metrics file may have a writer
  HALOGRAD_REQUIRE(has_attribute(file, "format", path), path,
                   ": is an HDF5 file, but not one of halograd: its root has no attribute 'format'");
  return read_string_attribute(file, "format", path);
}

void reserve_file(const std::string& path, std::size_t bytes) {
  const Descriptor descriptor(path, O_RDWR | O_CREAT);
  reserve(descriptor, 0, 0, bytes, path);
}

void reserve_growth(int descriptor, std::size_t bytes, const std::string& path) {
  struct stat status {};
  HALOGRAD_REQUIRE(::fstat(descriptor, &status) == 0, path, ": fstat failed: ", system_reason());
  reserve(descriptor, FALLOC_FL_KEEP_SIZE, status.st_size, bytes, path);
}

void release_reserve(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;
  // cut to the size that it has: the blocks behind go
  static_cast<void>(::truncate(path.c_str(), status.st_size) == 0);
}

void publish_file(const std::string& partial, const std::string& path) {
  sync_path(partial);
  HALOGRAD_REQUIRE(std::rename(partial.c_str(), path.c_str()) == 0, path, ": cannot be replaced by ", partial, ": ",
                   system_reason());
  sync_folder_of(path);
}

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_path(folder.empty() ? "." : folder);
}

}  // namespace halograd
