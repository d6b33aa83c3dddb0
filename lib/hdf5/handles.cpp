#include "hdf5/handles.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hdf5/files.hpp"
#include "mpi/communicator.hpp"
#include "support/system_reason.hpp"
#include "support/text_file.hpp"

namespace halograd {
namespace {

std::recursive_mutex& mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Keeps the text of the innermost entry, and whether that is of memory: HDF5 has two codes for it.
herr_t keep_first(unsigned position, const H5E_error2_t* error, void* reason) {
  if (position > 0 || error->desc == nullptr) return 0;
  *static_cast<SystemReason*>(reason) = {error->desc, error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC};
  return 0;
}

/// HDF5 goes on without locks where there are none (ENOSYS), but not where nobody serves them (ENOLCK), as on some NFS.
[[maybe_unused]] bool may_have_locks(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return true;
  const bool none = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == ENOLCK;
  ::close(descriptor);
  return !none;
}

/// HDF5's own errors for "not a file", "locked" and "cut short" are much alike, so this tells apart what it can.
void require_signature(const std::string& path) {
  constexpr std::array<char, 8> signature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  std::ifstream stream(path, std::ios::binary);
  HALOGRAD_REQUIRE(stream, path, ": cannot be opened: ", system_reason());
  std::array<char, 8> start{};
  stream.read(start.data(), start.size());
  HALOGRAD_REQUIRE(!stream.bad(), path, ": cannot be read: ", system_reason());
  HALOGRAD_REQUIRE(stream, path, ": not an HDF5 file: it has only ", stream.gcount(),
                   " bytes, or it is not a regular file");
  // behind a user block the signature stands at 512, 1024, 2048, ... (HDF5 File Format Specification, II.A)
  for (std::streamoff place = 512; stream && start != signature; place *= 2) {
    stream.seekg(place);
    stream.read(start.data(), start.size());
  }
  HALOGRAD_REQUIRE(stream, path, ": not an HDF5 file: it does not contain HDF5's signature");
}

/// Whatever HDF5 still writes to this file goes to memory that nobody reads, if it is a file of one process.
void discard_writes(hid_t file) {
  const Hdf5PropertyList access(H5Fget_access_plist(file));
  void* descriptor = nullptr;
  if (H5Pget_driver(access) != H5FD_SEC2 || H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) < 0) return;
  const int nowhere = ::memfd_create("halograd", MFD_CLOEXEC);
  if (nowhere < 0) return;
  ::dup3(nowhere, *static_cast<int*>(descriptor), O_CLOEXEC);
  ::close(nowhere);
}

}  // namespace

herr_t close_hdf5_file(hid_t file) {
  if (H5Fflush(file, H5F_SCOPE_LOCAL) >= 0) return H5Fclose(file);
  const hid_t reason = H5Eget_current_stack();
  discard_writes(file);
  H5Fclose(file);
  H5Eset_current_stack(reason);
  return -1;
}

Hdf5Session::Hdf5Session() : lock_(mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Session::~Hdf5Session() {
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

SystemReason hdf5_reason() {
  SystemReason reason{"no reason given"};
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  const std::size_t place = reason.text.find("errno = ");
  int error = 0;
  if (place != std::string::npos) std::sscanf(reason.text.c_str() + place, "errno = %d", &error);
  reason.of_machine = reason.of_machine || machine_has_failed(error);
  return reason;
}

void fail_hdf5(std::string_view file, std::string_view object, std::string_view call) {
  fail(file, ": ", object, ": ", call.substr(0, call.find('(')), " failed: ", hdf5_reason());
}

Hdf5PropertyList serial_file_access(const std::string& path, H5F_libver_t low, bool locked) {
  Hdf5PropertyList access(HALOGRAD_HDF5(H5Pcreate(H5P_FILE_ACCESS), "HDF5", "file access"));
  HALOGRAD_HDF5(H5Pset_libver_bounds(access, low, H5F_LIBVER_V110), "HDF5", "file access");
  (void)path;  // unused where HDF5 cannot be told
  (void)locked;
#if H5_VERSION_GE(1, 10, 7) && (H5_VERS_MINOR != 12 || H5_VERS_RELEASE > 0)
  // parallel file systems are often mounted without locks; that must not keep anybody from reading
  HALOGRAD_HDF5(H5Pset_file_locking(access, locked && may_have_locks(path), true), "HDF5", "file access");
#endif
  return access;
}

Hdf5File open_hdf5(const std::string& path, unsigned flags) {
  require_signature(path);
  // a writer beside readers takes no lock, or a plot drawn at the wrong moment would end a run; the flags that HDF5
  // keeps in the file still refuse a second writer
  const Hdf5PropertyList access = serial_file_access(path, H5F_LIBVER_V18, (flags & H5F_ACC_SWMR_WRITE) == 0);
  // Beside a writer, HDF5 reads what has a wrong checksum again, up to 100 times by default, and each time sleeps twice
  // as long, from a nanosecond on: a damaged file would be read forever. This many sleeps add up to a quarter of a
  // second.
  constexpr unsigned read_attempts = 28;
  if ((flags & (H5F_ACC_SWMR_READ | H5F_ACC_SWMR_WRITE)) != 0)
    HALOGRAD_HDF5(H5Pset_metadata_read_attempts(access, read_attempts), path, "file access");
  const hid_t file = H5Fopen(path.c_str(), flags, access);
  HALOGRAD_REQUIRE(file >= 0, path, ": cannot be opened as HDF5 (", std::filesystem::file_size(path),
                   " bytes; cut short, damaged or in use?): ", hdf5_reason());
  return Hdf5File(file);
}

Hdf5File open_hdf5_together(const Communicator& comm, const std::string& path, unsigned flags) {
  const Hdf5PropertyList access(HALOGRAD_HDF5(H5Pcreate(H5P_FILE_ACCESS), path, "file access"));
  HALOGRAD_HDF5(H5Pset_fapl_mpio(access, comm.handle(), MPI_INFO_NULL), path, "file access");
  HALOGRAD_HDF5(H5Pset_all_coll_metadata_ops(access, true), path, "file access");
  HALOGRAD_HDF5(H5Pset_coll_metadata_write(access, true), path, "file access");
  return Hdf5File(HALOGRAD_HDF5(H5Fopen(path.c_str(), flags, access), path, "file"));
}

Hdf5File create_hdf5(const std::string& path, std::size_t bytes) {
  const Hdf5PropertyList access = serial_file_access(path, H5F_LIBVER_V18);
  HALOGRAD_HDF5(H5Pset_alignment(access, mebibyte, mebibyte), path, "file access");
  // creating truncates and gives the reserved blocks back: hence an empty file first, then its room, then the open
  reserve_file(path, bytes);
  Hdf5File empty(HALOGRAD_HDF5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), path, "file"));
  HALOGRAD_HDF5(empty.close(), path, "file");
  reserve_file(path, bytes);
  return Hdf5File(HALOGRAD_HDF5(H5Fopen(path.c_str(), H5F_ACC_RDWR, access), path, "file"));
}

Hdf5MemoryFile::Hdf5MemoryFile(std::string path, std::size_t bytes) : path_(std::move(path)) {
  std::string name = "/dev/shm/halograd-hdf5-XXXXXX";  // HDF5 wants a file that has a name
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  HALOGRAD_REQUIRE(descriptor_ >= 0, path_, ": ", name, ", in which it is made, cannot be created: ", system_reason());
  const Hdf5PropertyList access = serial_file_access(name, H5F_LIBVER_V110);
  const Hdf5PropertyList creation(HALOGRAD_HDF5(H5Pcreate(H5P_FILE_CREATE), path_, "file"));
  // what is written in place lies in one page each: it comes to the disk whole or not at all
  HALOGRAD_HDF5(H5Pset_file_space_strategy(creation, H5F_FSPACE_STRATEGY_PAGE, false, 1), path_, "file");
  HALOGRAD_HDF5(H5Pset_file_space_page_size(creation, 4096), path_, "file");
  file_ = Hdf5File(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation, access));
  ::unlink(name.c_str());  // it lives as long as it is open
  HALOGRAD_HDF5(hid_t(file_), path_, "H5Fcreate");
  reserve_growth(descriptor_, bytes, name);
}

Hdf5MemoryFile::~Hdf5MemoryFile() {
  file_.close();
  ::close(descriptor_);
}

void Hdf5MemoryFile::write() {
  HALOGRAD_HDF5(file_.close(), path_, "file");
  write_text(path_, read_text("/proc/self/fd/" + std::to_string(descriptor_)));
}

}  // namespace halograd
