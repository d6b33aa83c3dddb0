#pragma once

#include <mpi.h>

#include <cstddef>
#include <utility>

#include "mpi/communicator.hpp"

namespace halograd {

/// An RMA window in a lock_all epoch for its whole life, of the unified memory model. It is freed with this object,
/// which is collective; while an exception unwinds this rank alone, it is left to the abort that follows.
class OwnedWindow {
 public:
  /// No window.
  OwnedWindow() = default;
  /// Collective. Over `bytes` of memory of each rank, with displacements in bytes, for MPI_Put and MPI_Accumulate from
  /// all ranks of `comm`, whose error handler is changed meanwhile; none where there is one rank, to which Debian's
  /// Open MPI gives none. The memory must live longer, and be aligned to 64 bytes: MPICH 4.0 on UCX takes other
  /// addresses for the next lower multiple of 16. Throws CollectiveError where it is not, or where MPI makes no such
  /// window.
  static OwnedWindow over(const Communicator& comm, void* memory, std::size_t bytes);
  ~OwnedWindow();
  OwnedWindow(OwnedWindow&& other) noexcept : window_(std::exchange(other.window_, MPI_WIN_NULL)) {}
  OwnedWindow& operator=(OwnedWindow&& other) noexcept {
    std::swap(window_, other.window_);
    return *this;
  }

  [[nodiscard]] MPI_Win handle() const { return window_; }
  [[nodiscard]] explicit operator bool() const { return window_ != MPI_WIN_NULL; }
  /// Orders loads and stores of this rank with what others do to its memory; nothing where there is no window.
  void sync() const {
    if (window_ != MPI_WIN_NULL) MPI_Win_sync(window_);
  }

 private:
  OwnedWindow(const Communicator& comm, MPI_Win window);

  Unwinding unwinding_;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace halograd
