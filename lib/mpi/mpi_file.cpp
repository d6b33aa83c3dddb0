#include "mpi/mpi_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/most_in_a_call.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

/// MPI has one class for all errors of a disk. errno outlasts a call that waits for no other rank; ROMIO's text holds
/// its words, Open MPI's says nothing.
bool tells_of_disk(std::string_view text) {
  if (machine_has_failed(errno)) return true;
  constexpr int errors = 134;  // that Linux has
  for (int error = 1; error < errors; ++error) {
    if (machine_has_failed(error) && text.find(system_reason(error).text) != std::string_view::npos) return true;
  }
  return false;
}

void check(int result, const std::string& path, const char* what) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> reason{};
  int length = 0;
  MPI_Error_string(result, reason.data(), &length);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  fail(path, ": ", what, ": ", SystemReason{reason.data(), tells_of_disk(reason.data())});
}

}  // namespace

MpiFile::MpiFile(const Communicator& comm, std::string path) : path_(std::move(path)) {
  errno = 0;
  check(MPI_File_open(comm.handle(), path_.c_str(), MPI_MODE_WRONLY, MPI_INFO_NULL, &file_), path_, "cannot be opened");
}

MpiFile::~MpiFile() {
  if (file_ != MPI_FILE_NULL && !unwinding_.now()) MPI_File_close(&file_);
}

void MpiFile::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(most_in_a_call, bytes.size()))) {
    const auto count = static_cast<int>(std::min(most_in_a_call, bytes.size()));
    MPI_Status status;
    errno = 0;
    check(MPI_File_write_at(file_, offset, bytes.data(), count, MPI_BYTE, &status), path_, "write failed");
    // Open MPI 4.1 takes a write that failed for one of fewer bytes.
    int written = 0;
    MPI_Get_count(&status, MPI_BYTE, &written);
    HALOGRAD_REQUIRE(written == count, path_, ": write failed: ", written, " of ", count,
                     " bytes were written: ", system_reason());
    offset += count;
  }
}

void MpiFile::close() {
  errno = 0;
  const int synced = MPI_File_sync(file_);
  const int closed = MPI_File_close(&file_);
  check(synced, path_, "fsync failed");
  check(closed, path_, "close failed");
}

}  // namespace halograd
