#include "mpi/owned_window.hpp"

#include <array>
#include <cstdint>
#include <string>

#include "kernels/error.hpp"
#include "mpi/failed_calls.hpp"

namespace halograd {
namespace {

#ifdef OPEN_MPI
// Its component for plain networks takes no MPI_THREAD_MULTIPLE; UCX does, but Debian leaves it out and UCX itself
// only accepts fast networks unless told.
constexpr auto remedy =
    "; over TCP, let Open MPI use UCX (docs/building.md): OMPI_MCA_pml=ucx OMPI_MCA_osc=sm,ucx "
    "OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any";
#else
constexpr auto remedy = "";
#endif

std::string error_text(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return text.data();
}

/// Calls `make`, which is to return an error code instead of ending the job.
template <class Make>
int returning_errors(const Communicator& comm, const Make& make) {
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(comm.handle(), &before);
  MPI_Comm_set_errhandler(comm.handle(), MPI_ERRORS_RETURN);
  const int result = make();
  MPI_Comm_set_errhandler(comm.handle(), before);
  MPI_Errhandler_free(&before);
  return result;
}

}  // namespace

OwnedWindow OwnedWindow::over(const Communicator& comm, void* memory, std::size_t bytes) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory) % 64 == 0;
  comm.fail_together(aligned ? "" : "memory of an MPI window is not aligned to 64 bytes");
  if (comm.ranks() == 1) return {};
  MPI_Win window = MPI_WIN_NULL;
  const int result = returning_errors(comm, [&] {
    return MPI_Win_create(memory, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm.handle(), &window);
  });
  comm.fail_together(result == MPI_SUCCESS ? ""
                                           : "this MPI has no one-sided communication between these ranks "
                                             "(MPI_Win_create: " +
                                                 error_text(result) + ")" + remedy);
  return {comm, window};
}

OwnedWindow::OwnedWindow(const Communicator& comm, MPI_Win window) : window_(window) {
  int* model = nullptr;
  int found = 0;
  MPI_Win_get_attr(window_, MPI_WIN_MODEL, &model, &found);
  try {
    comm.fail_together(found != 0 && *model == MPI_WIN_UNIFIED
                           ? ""
                           : "this MPI offers one-sided communication only with separate public and private memory "
                             "(MPI_WIN_SEPARATE); neighbour averaging needs MPI_WIN_UNIFIED");
  } catch (const CollectiveError&) {
    MPI_Win_free(&window_);
    throw;
  }
  outlast_deaths_by_window(window_);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
}

OwnedWindow::~OwnedWindow() {
  if (window_ == MPI_WIN_NULL || unwinding_.now()) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

}  // namespace halograd
