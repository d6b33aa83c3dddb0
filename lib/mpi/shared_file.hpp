#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace halograd {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(void* memory) const;
};
using MappedMemory = std::unique_ptr<void, Unmap>;

/// A file in /dev/shm that processes of a host share: one makes it, the others open it. Its name goes with the object
/// that has made it, before there is anything in it, so that a process that is killed leaves no memory behind.
class SharedFile {
 public:
  /// A new one, empty; if the system gives none, key() is 0.
  SharedFile();
  /// That of another process, or one's own.
  explicit SharedFile(std::uint64_t key);
  ~SharedFile();
  SharedFile(SharedFile&& other) noexcept
      : key_(std::exchange(other.key_, 0)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  SharedFile& operator=(SharedFile&&) = delete;

  /// What others open it by: a random number; 0 where this object has not made it.
  [[nodiscard]] std::uint64_t key() const { return key_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  /// `bytes` zeros, one or more, are in it. Returns whether there is room.
  [[nodiscard]] bool allocate(std::size_t bytes) const;
  /// All of it; null where the system does not map it.
  [[nodiscard]] MappedMemory map() const;

 private:
  std::uint64_t key_ = 0;
  int descriptor_ = -1;
};

/// `bytes` zeros, one or more, of this process alone; null where the system gives none.
MappedMemory map_own_memory(std::size_t bytes);

}  // namespace halograd
