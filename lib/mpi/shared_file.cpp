#include "mpi/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <string>

namespace halograd {
namespace {

std::string path_of(std::uint64_t key) {
  return "/dev/shm/halograd." + std::to_string(key);
}

MappedMemory map(std::size_t bytes, int flags, int file) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  return memory == MAP_FAILED ? nullptr : MappedMemory(memory, Unmap{bytes});
}

}  // namespace

SharedFile::SharedFile(std::size_t bytes) {
  std::random_device random;
  const std::uint64_t key = (static_cast<std::uint64_t>(random()) << 32U) + random();
  const int file = ::open(path_of(key).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return;
  key_ = key;
  if (::posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0) {  // else a store to a full /dev/shm ends us
    ::unlink(path_of(key).c_str());
    key_ = 0;
  }
  ::close(file);
}

SharedFile::~SharedFile() {
  if (key_ != 0) ::unlink(path_of(key_).c_str());
}

void Unmap::operator()(void* memory) const {
  ::munmap(memory, bytes);
}

MappedMemory map_shared_file(std::uint64_t key) {
  const int file = key == 0 ? -1 : ::open(path_of(key).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  ::fstat(file, &status);
  MappedMemory memory = map(static_cast<std::size_t>(status.st_size), MAP_SHARED, file);
  ::close(file);
  return memory;
}

MappedMemory map_own_memory(std::size_t bytes) {
  return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

}  // namespace halograd
