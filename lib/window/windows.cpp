#include "window/windows.hpp"

#include <array>
#include <string>

#include "kernels/error.hpp"
#include "mpi/wait.hpp"

namespace halograd {
namespace {

#ifdef OPEN_MPI
// Its component for plain networks takes no MPI_THREAD_MULTIPLE; UCX does, but Debian leaves it out and UCX itself
// only accepts fast networks unless told.
constexpr auto remedy =
    "; over TCP, have Open MPI take UCX (docs/building.md): OMPI_MCA_pml=ucx OMPI_MCA_osc=sm,ucx "
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

}  // namespace

MPI_Win create_window(MPI_Comm comm, void* memory, std::size_t bytes) {
  MPI_Win window = MPI_WIN_NULL;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const int result = MPI_Win_create(memory, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, comm, &window);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  fail_together(comm, result == MPI_SUCCESS ? ""
                                            : "this MPI has no one-sided communication between these ranks "
                                              "(MPI_Win_create: " +
                                                  error_text(result) + ")" + remedy);
  try {
    require_unified(comm, window);
  } catch (const CollectiveError&) {
    MPI_Win_free(&window);
    throw;
  }
  return window;
}

void require_unified(MPI_Comm comm, MPI_Win window) {
  int* model = nullptr;
  int found = 0;
  MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &found);
  fail_together(comm, found != 0 && *model == MPI_WIN_UNIFIED
                          ? ""
                          : "this MPI offers one-sided communication only with separate public and private memory "
                            "(MPI_WIN_SEPARATE); neighbour averaging needs MPI_WIN_UNIFIED");
}

}  // namespace halograd
