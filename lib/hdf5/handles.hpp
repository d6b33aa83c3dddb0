#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"

namespace halograd {

class Communicator;

/// Holds the process's HDF5 lock, with HDF5's own printing of errors switched off. Every caller of HDF5 holds one:
/// HDF5 as distributions build it is not thread-safe, and the loader's thread reads while the trainer writes.
class Hdf5Session {
 public:
  Hdf5Session();
  ~Hdf5Session();
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// The innermost entry of HDF5's error stack, which says most: that memory has run out, or where a call of the system
/// has failed its errno.
SystemReason hdf5_reason();

/// Throws Error with file, object, the HDF5 function (the text of `call` before its bracket) and hdf5_reason().
[[noreturn]] void fail_hdf5(std::string_view file, std::string_view object, std::string_view call);

template <class Result>
Result check_hdf5(Result result, std::string_view file, std::string_view object, std::string_view call) {
  if (result < 0) fail_hdf5(file, object, call);
  return result;
}

/// An HDF5 identifier that `Close` closes when it goes out of scope.
template <herr_t (*Close)(hid_t)>
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t id) : id_(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Handle() { close(); }

  operator hid_t() const { return id_; }

  /// Closes now, for callers that must know whether it worked. Returns a negative value if it failed.
  herr_t close() {
    if (id_ < 0) return 0;
    const Hdf5Session session;
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return H5Iis_valid(id) > 0 ? Close(id) : 0;  // MPI_Finalize closes what is open, before an object that outlives it
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// H5Fclose for files whose disk may fail: HDF5 1.14 and 2 crash where a write fails while they close a file. Where its
/// flush fails, what is left to write goes nowhere, and the result is negative with the flush's reason.
herr_t close_hdf5_file(hid_t file);

using Hdf5File = Hdf5Handle<close_hdf5_file>;
using Hdf5Group = Hdf5Handle<H5Gclose>;
using Hdf5Dataset = Hdf5Handle<H5Dclose>;
using Hdf5Space = Hdf5Handle<H5Sclose>;
using Hdf5PropertyList = Hdf5Handle<H5Pclose>;
using Hdf5Attribute = Hdf5Handle<H5Aclose>;
using Hdf5Type = Hdf5Handle<H5Tclose>;

/// File-access properties for one process: a format that every HDF5 from `low` on can read, and file locks if `locked`
/// and if the file system has them where the file is.
Hdf5PropertyList serial_file_access(const std::string& path, H5F_libver_t low, bool locked = true);

/// Opens an existing file with one process. Throws Error saying whether it is missing, no HDF5 file, or cut short.
Hdf5File open_hdf5(const std::string& path, unsigned flags);

/// Opens an existing file with all ranks of `comm` through MPI-IO. Collective; each rank throws only its own Error.
Hdf5File open_hdf5_together(const Communicator& comm, const std::string& path, unsigned flags);

inline constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Creates a file for one process, in a format that HDF5 1.8 can read, with room for `bytes` reserved on the disk: HDF5
/// 1.10 does not survive a close that fails, so a full disk has to show before. Datasets of 1 MiB and more start at
/// multiples of 1 MiB, where file systems have their stripes.
Hdf5File create_hdf5(const std::string& path, std::size_t bytes);

/// A new file in memory, in a format for one writer and readers (SWMR).
class Hdf5MemoryFile {
 public:
  /// `path`: where it will be on the disk. Throws Error where /dev/shm has no room for `bytes`.
  Hdf5MemoryFile(std::string path, std::size_t bytes);
  ~Hdf5MemoryFile();
  Hdf5MemoryFile(const Hdf5MemoryFile&) = delete;
  Hdf5MemoryFile& operator=(const Hdf5MemoryFile&) = delete;

  [[nodiscard]] const Hdf5File& file() const { return file_; }
  /// Closes it, and writes it there.
  void write();

 private:
  std::string path_;
  int descriptor_ = -1;
  Hdf5File file_;
};

}  // namespace halograd

/// The result of an HDF5 call; throws Error naming file, object and reason where it failed.
#define HALOGRAD_HDF5(call, file, object) ::halograd::check_hdf5((call), (file), (object), #call)
