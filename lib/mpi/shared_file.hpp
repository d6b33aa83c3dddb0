#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace halograd {

/// A file in /dev/shm that this process has made, to be mapped by others of the host, until this object ends. Those who
/// have it open or mapped by then keep it.
class SharedFile {
 public:
  /// `bytes` zeros, one or more. If the system gives none, key() is 0.
  explicit SharedFile(std::size_t bytes);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// What map_shared_file() finds it by: a random number.
  [[nodiscard]] std::uint64_t key() const { return key_; }

 private:
  std::uint64_t key_ = 0;
};

struct Unmap {
  std::size_t bytes = 0;
  void operator()(void* memory) const;
};
using MappedMemory = std::unique_ptr<void, Unmap>;

/// All of another process' SharedFile, or of one's own; null where this process does not find it.
MappedMemory map_shared_file(std::uint64_t key);
/// `bytes` zeros, one or more, of this process alone; null where the system gives none.
MappedMemory map_own_memory(std::size_t bytes);

}  // namespace halograd
