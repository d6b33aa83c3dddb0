#pragma once

#include <mpi.h>

namespace halograd {

/// A value that make() gives once per communicator: kept as an attribute of it, deleted when it is freed. One value for
/// each type of `make`.
template <class Make>
auto& kept_with(MPI_Comm comm, const Make& make) {
  using Value = decltype(make());
  static const int key = [] {
    int created = MPI_KEYVAL_INVALID;
    const auto forget = [](MPI_Comm, int, void* kept, void*) {
      delete static_cast<Value*>(kept);
      return MPI_SUCCESS;
    };
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &created, nullptr);
    return created;
  }();
  Value* kept = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, key, static_cast<void*>(&kept), &found);
  if (found == 0) {
    kept = new Value(make());
    MPI_Comm_set_attr(comm, key, kept);
  }
  return *kept;
}

}  // namespace halograd
