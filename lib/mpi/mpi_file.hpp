#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mpi/communicator.hpp"
#include "mpi/unwinding.hpp"

namespace halograd {

/// An existing file that all ranks write into through MPI-IO. A rank whose call fails keeps no other waiting: it throws
/// Error with the file's name, and the others come back.
class MpiFile {
 public:
  /// Collective.
  MpiFile(const Communicator& comm, std::string path);
  /// Collective, unless an exception unwinds this rank alone.
  ~MpiFile();
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  /// Not collective.
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  /// Collective. What was written is on the disk then.
  void close();

 private:
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
  Unwinding unwinding_;
};

}  // namespace halograd
