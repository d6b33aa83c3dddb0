#include "io/durable.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "kernels/error.hpp"

namespace halograd {
namespace {

std::string reason() {
  return std::generic_category().message(errno);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC)) {
    HALOGRAD_REQUIRE(descriptor_ >= 0, path, ": cannot be opened: ", reason());
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
  HALOGRAD_REQUIRE(::fsync(descriptor) == 0 || errno == EINVAL, path, ": fsync failed: ", reason());
}

}  // namespace

void reserve_blocks(const std::string& path) {
  const Descriptor descriptor(path, O_RDWR);
  struct stat status {};
  HALOGRAD_REQUIRE(::fstat(descriptor, &status) == 0, path, ": fstat failed: ", reason());
  if (status.st_size == 0 || ::fallocate(descriptor, 0, 0, status.st_size) == 0) return;
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  HALOGRAD_REQUIRE(!full, path, ": no room for ", status.st_size, " bytes: ", reason());
}

void publish_file(const std::string& partial, const std::string& path) {
  sync_path(partial);
  HALOGRAD_REQUIRE(std::rename(partial.c_str(), path.c_str()) == 0, path, ": cannot be replaced by ", partial, ": ",
                   reason());
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_path(folder.empty() ? "." : folder);
}

}  // namespace halograd
