#include "mpi/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>

namespace halograd {
namespace {

std::string path_of(std::uint64_t key) {
  return "/dev/shm/halograd." + std::to_string(key);
}

MappedMemory map_memory(std::size_t bytes, int flags, int file) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  return memory == MAP_FAILED ? nullptr : MappedMemory(memory, Unmap{bytes});
}

}  // namespace

void Unmap::operator()(void* memory) const {
  ::munmap(memory, bytes);
}

SharedFile::SharedFile() {
  std::random_device random;
  const std::uint64_t key = (static_cast<std::uint64_t>(random()) << 32U) + random();
  descriptor_ = ::open(path_of(key).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (is_open()) key_ = key;
}

SharedFile::SharedFile(std::uint64_t key) {
  if (key != 0) descriptor_ = ::open(path_of(key).c_str(), O_RDWR | O_CLOEXEC);
}

SharedFile::~SharedFile() {
  if (key_ != 0) ::unlink(path_of(key_).c_str());
  if (is_open()) ::close(descriptor_);
}

bool SharedFile::allocate(std::size_t bytes) const {
  int error = EINTR;  // as a signal makes it
  while (error == EINTR) error = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  return error == 0;  // else a store to a full /dev/shm ends us
}

MappedMemory SharedFile::map() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return nullptr;
  return map_memory(static_cast<std::size_t>(status.st_size), MAP_SHARED, descriptor_);
}

MappedMemory map_own_memory(std::size_t bytes) {
  return map_memory(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1);
}

}  // namespace halograd
