// The disk of the tests of faults: a library that is loaded before the C library. It notes in order what programs do to
// the files below one folder, and has some of their calls fail. disk_faults.py sets it up and reads the notes.
//
// HALOGRAD_TEST_DISK        the folder, an absolute path
// HALOGRAD_TEST_DISK_NOTES  a file to which each call that succeeded appends a line: create INODE PATH,
//                           write INODE OFFSET BYTES (which follow the line), size INODE BYTES, sync INODE PATH,
//                           rename FROM TO, remove PATH, link PATH TARGET, folder PATH; and each that was made to
//                           fail: failed CALL PATH
// HALOGRAD_TEST_DISK_FAULT  RANK CALL FIRST LAST ERRNO: these calls of that rank fail, counted from 1. CALL is write
//                           (and ftruncate), read, room (fallocate), sync, name (rename, link, mkdir, and removing what
//                           is there), open, lock, see (opening a file that is there and that this process has not
//                           made, and asking whether it is), or memory: what C++, Kokkos and HDF5 ask for by any call,
//                           counted from the first file on, or hdf5_memory: that of HDF5 alone. list counts nothing:
//                           lists of folders leave out checkpoints of FIRST to LAST steps.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <set>

// The C library's.
extern "C" void* __libc_malloc(std::size_t bytes);                           // NOLINT(bugprone-reserved-identifier)
extern "C" void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT(bugprone-reserved-identifier)
extern "C" void* __libc_realloc(void* memory, std::size_t bytes);            // NOLINT(bugprone-reserved-identifier)
extern "C" void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)

namespace {

using Path = std::array<char, 4096>;

struct Fault {
  std::array<char, 16> call{};  ///< empty: none
  long first = 0, last = 0;
  int error = 0;
};

// Set before main; memory is asked for even earlier.
const char* folder = nullptr;
int notes = -1;
Fault fault;
std::atomic<bool> began{false};  ///< a file below the folder was opened
std::atomic<long> counted{0};
std::mutex mutex;
std::set<unsigned long> made;  ///< inodes; those who touch it have their turn

bool is_of(const char* call) {
  return std::strcmp(fault.call.data(), call) == 0;
}

bool lies_below(const Path& path) {
  const std::size_t length = folder == nullptr ? 0 : std::strlen(folder);
  return length > 0 && std::strncmp(path.data(), folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

Path path_of(int descriptor) {
  Path link{}, path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  if (folder != nullptr && ::readlink(link.data(), path.data(), path.size() - 1) < 0) path[0] = '\0';
  return path;
}

Path path_of(int parent, const char* name) {
  Path path{};
  if (folder == nullptr) return path;
  if (name[0] != '/') {
    path = parent == AT_FDCWD ? Path{} : path_of(parent);
    if (parent == AT_FDCWD && ::getcwd(path.data(), path.size() - 1) == nullptr) return Path{};
    std::strncat(path.data(), "/", path.size() - std::strlen(path.data()) - 1);
  }
  std::strncat(path.data(), name, path.size() - std::strlen(path.data()) - 1);
  return path;
}

unsigned long inode_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

bool exists(const Path& path) {
  struct stat status {};
  return ::lstat(path.data(), &status) == 0;
}

void append(const void* bytes, std::size_t length) {
  if (notes >= 0) static_cast<void>(syscall(SYS_write, notes, bytes, length));
}

template <class... Values>
void note(const char* form, Values... values) {
  std::array<char, 3 * sizeof(Path)> line{};
  append(line.data(), static_cast<std::size_t>(std::snprintf(line.data(), line.size(), form, values...)));
}

/// Whether the next call of this kind fails, and if so the note of it.
bool next_fails(const char* path) {
  const long number = ++counted;
  if (number < fault.first || number > fault.last) return false;
  note("failed %s %s\n", fault.call.data(), path);
  errno = fault.error;
  return true;
}

/// A call that comes to the folder: no other call of any process is between it and its note.
class Turn {
 public:
  explicit Turn(bool inside) : inside_(inside) {
    if (!inside) return;
    mutex.lock();
    syscall(SYS_flock, notes, LOCK_EX);
  }
  ~Turn() {
    if (!inside_) return;
    syscall(SYS_flock, notes, LOCK_UN);
    mutex.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool inside_;
};

/// `take_note` is called with the result of `work` where that succeeded.
template <class Work, class TakeNote>
auto performed(const char* call, const Path& path, const Work& work, const TakeNote& take_note) -> decltype(work()) {
  const bool inside = lies_below(path);
  const Turn turn(inside);
  if (inside && is_of(call) && next_fails(path.data())) return -1;
  const auto result = work();
  const int error = errno;
  if (inside && result >= 0) take_note(result);
  errno = error;
  return result;
}

/// Whether this process does not see yet what another has made.
bool is_hidden(const Path& path) {
  struct stat status {};
  if (!is_of("see") || !lies_below(path) || ::lstat(path.data(), &status) != 0) return false;
  const Turn turn(true);
  return S_ISREG(status.st_mode) && made.count(status.st_ino) == 0 && next_fails(path.data());
}

template <class Work>
int opened(int parent, const char* name, int flags, const Work& work) {
  const Path path = path_of(parent, name);
  const bool inside = lies_below(path), existed = inside && exists(path);
  began = began || inside;
  if (is_hidden(path)) return -1;
  return performed("open", path, work, [&](int descriptor) {
    if (!existed) made.insert(inode_of(descriptor));
    if (!existed) note("create %lu %s\n", inode_of(descriptor), path.data());
    if (existed && (flags & O_TRUNC) != 0) note("size %lu 0\n", inode_of(descriptor));
  });
}

int open_at(int parent, const char* name, int flags, unsigned mode) {
  return opened(parent, name, flags, [&] { return static_cast<int>(syscall(SYS_openat, parent, name, flags, mode)); });
}

template <class Work>
::ssize_t written(int descriptor, const Work& work, ::off_t offset, const ::iovec* parts) {
  return performed("write", path_of(descriptor), work, [&](::ssize_t bytes) {
    const ::off_t begin = offset < 0 ? ::lseek(descriptor, 0, SEEK_CUR) - bytes : offset;
    note("write %lu %ld %ld\n", inode_of(descriptor), static_cast<long>(begin), static_cast<long>(bytes));
    for (::ssize_t left = bytes; left > 0; ++parts) {
      const std::size_t length = std::min(parts->iov_len, static_cast<std::size_t>(left));
      append(parts->iov_base, length);
      left -= static_cast<::ssize_t>(length);
    }
  });
}

template <class Work>
::ssize_t have_read(int descriptor, const Work& work) {
  return performed("read", path_of(descriptor), work, [](::ssize_t) {});
}

template <class Work>
int resized(const char* call, int descriptor, const Work& work) {
  return performed(call, path_of(descriptor), work, [&](int) {
    struct stat status {};
    ::fstat(descriptor, &status);
    note("size %lu %ld\n", status.st_ino, static_cast<long>(status.st_size));
  });
}

int remove_at(int parent, const char* name, int flags) {
  const Path path = path_of(parent, name);
  if (!exists(path)) return static_cast<int>(syscall(SYS_unlinkat, parent, name, flags));
  return performed(
      "name", path, [&] { return static_cast<int>(syscall(SYS_unlinkat, parent, name, flags)); },
      [&](int) { note("remove %s\n", path.data()); });
}

std::FILE* open_stream(const char* symbol, const char* name, const char* mode) {
  using Open = std::FILE*(const char*, const char*);
  auto* const next = reinterpret_cast<Open*>(::dlsym(RTLD_NEXT, symbol));
  std::FILE* stream = nullptr;
  opened(AT_FDCWD, name, mode[0] == 'w' ? O_TRUNC : 0, [&] {
    stream = next(name, mode);
    return stream == nullptr ? -1 : ::fileno(stream);
  });
  return stream;
}

/// The next entry of a folder that its list has.
template <class Entry>
Entry* listed(const char* symbol, ::DIR* stream) {
  auto* const next = reinterpret_cast<Entry* (*)(::DIR*)>(::dlsym(RTLD_NEXT, symbol));
  Entry* entry = next(stream);
  const bool inside = is_of("list") && lies_below(path_of(::dirfd(stream)));
  for (long steps = 0; inside && entry != nullptr && std::sscanf(entry->d_name, "step_%ld.h5", &steps) == 1 &&
                       steps >= fault.first && steps <= fault.last;)
    entry = next(stream);
  return entry;
}

/// `caller`: an address of the code that asks for memory. MPI, the C library and what tests load are not refused it.
bool memory_fails(const void* caller) {
  if (!began || !(is_of("memory") || is_of("hdf5_memory"))) return false;
  ::Dl_info info{};
  if (::dladdr(caller, &info) == 0) return false;
  const auto is_from = [&](const char* library) { return std::strstr(info.dli_fname, library) != nullptr; };
  const bool of_program = is_from("halograd") && !is_from("halograd_test");
  const bool of_others = of_program || is_from("kokkos") || is_from("libstdc++");
  return (is_from("hdf5") || (of_others && is_of("memory"))) && next_fails("-");
}

void* taken(std::size_t bytes, const void* caller, std::size_t alignment = 0) {
  void* const memory = memory_fails(caller) ? nullptr
                       : alignment == 0     ? __libc_malloc(bytes)
                                            : __libc_memalign(alignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

__attribute__((constructor)) void begin() {
  folder = std::getenv("HALOGRAD_TEST_DISK");
  if (folder == nullptr) return;
  if (const char* path = std::getenv("HALOGRAD_TEST_DISK_NOTES"); path != nullptr)
    notes = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const char *asked = std::getenv("HALOGRAD_TEST_DISK_FAULT"), *rank = std::getenv("PMI_RANK");
  if (rank == nullptr) rank = std::getenv("OMPI_COMM_WORLD_RANK");
  int of_rank = 0;
  Fault read;
  if (asked == nullptr || rank == nullptr ||
      std::sscanf(asked, "%d %15s %ld %ld %d", &of_rank, read.call.data(), &read.first, &read.last, &read.error) != 5)
    return;
  if (of_rank == std::atoi(rank)) fault = read;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return taken(bytes, __builtin_return_address(0));
}

void* operator new[](std::size_t bytes) {
  return taken(bytes, __builtin_return_address(0));
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return taken(bytes, __builtin_return_address(0), static_cast<std::size_t>(alignment));
}

void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return taken(bytes, __builtin_return_address(0), static_cast<std::size_t>(alignment));
}

extern "C" {

void* malloc(std::size_t bytes) noexcept {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}

void* realloc(void* memory, std::size_t bytes) noexcept {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_realloc(memory, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memory_fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  void* const found = memory_fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

int open(const char* name, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  return open_at(AT_FDCWD, name, flags, mode);
}

std::FILE* fopen(const char* name, const char* mode) {
  return open_stream("fopen", name, mode);
}

::ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  const ::iovec part{const_cast<void*>(bytes), count};
  return written(
      descriptor, [&] { return syscall(SYS_write, descriptor, bytes, count); }, -1, &part);
}

::ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, ::off_t offset) {
  const ::iovec part{const_cast<void*>(bytes), count};
  return written(
      descriptor, [&] { return syscall(SYS_pwrite64, descriptor, bytes, count, offset); }, offset, &part);
}

::ssize_t writev(int descriptor, const ::iovec* parts, int count) {
  return written(
      descriptor, [&] { return syscall(SYS_writev, descriptor, parts, count); }, -1, parts);
}

::ssize_t read(int descriptor, void* bytes, std::size_t count) {
  return have_read(descriptor, [&] { return syscall(SYS_read, descriptor, bytes, count); });
}

::ssize_t pread(int descriptor, void* bytes, std::size_t count, ::off_t offset) {
  return have_read(descriptor, [&] { return syscall(SYS_pread64, descriptor, bytes, count, offset); });
}

int ftruncate(int descriptor, ::off_t length) {
  return resized("write", descriptor, [&] { return static_cast<int>(syscall(SYS_ftruncate, descriptor, length)); });
}

int fallocate(int descriptor, int mode, ::off_t offset, ::off_t length) {
  return resized("room", descriptor,
                 [&] { return static_cast<int>(syscall(SYS_fallocate, descriptor, mode, offset, length)); });
}

int fsync(int descriptor) {
  const Path path = path_of(descriptor);
  return performed(
      "sync", path, [&] { return static_cast<int>(syscall(SYS_fsync, descriptor)); },
      [&](int) { note("sync %lu %s\n", inode_of(descriptor), path.data()); });
}

// Not performed() in a turn, which ends only when the call does: a lock may be waited for.
int flock(int descriptor, int operation) {
  if (const Path path = path_of(descriptor); lies_below(path) && is_of("lock") && next_fails(path.data())) return -1;
  return static_cast<int>(syscall(SYS_flock, descriptor, operation));
}

int rename(const char* from, const char* to) {
  const Path source = path_of(AT_FDCWD, from), target = path_of(AT_FDCWD, to);
  return performed(
      "name", target, [&] { return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)); },
      [&](int) { note("rename %s %s\n", source.data(), target.data()); });
}

int symlink(const char* target, const char* name) {
  const Path path = path_of(AT_FDCWD, name);
  return performed(
      "name", path, [&] { return static_cast<int>(syscall(SYS_symlinkat, target, AT_FDCWD, name)); },
      [&](int) { note("link %s %s\n", path.data(), target); });
}

int mkdir(const char* name, ::mode_t mode) {
  const Path path = path_of(AT_FDCWD, name);
  return performed(
      "name", path, [&] { return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, name, mode)); },
      [&](int) { note("folder %s\n", path.data()); });
}

int unlink(const char* name) {
  return remove_at(AT_FDCWD, name, 0);
}

int remove(const char* name) {
  struct stat status {};
  const bool is_folder = ::lstat(name, &status) == 0 && S_ISDIR(status.st_mode);
  return remove_at(AT_FDCWD, name, is_folder ? AT_REMOVEDIR : 0);
}

int unlinkat(int parent, const char* name, int flags) {
  return remove_at(parent, name, flags);
}

int stat(const char* name, struct stat* status) noexcept {
  if (is_hidden(path_of(AT_FDCWD, name))) return -1;
  return ::fstatat(AT_FDCWD, name, status, 0);
}

int access(const char* name, int mode) noexcept {
  if (is_hidden(path_of(AT_FDCWD, name))) return -1;
  return ::faccessat(AT_FDCWD, name, mode, 0);
}

::dirent* readdir(::DIR* stream) {
  return listed<::dirent>("readdir", stream);
}

// The C library's other names for the same, where offsets have 64 bits.
int open64(const char*, int, ...) __attribute__((alias("open")));
std::FILE* fopen64(const char* name, const char* mode) {
  return open_stream("fopen64", name, mode);
}
::ssize_t pread64(int, void*, std::size_t, ::off_t) __attribute__((alias("pread")));
::ssize_t pwrite64(int, const void*, std::size_t, ::off_t) __attribute__((alias("pwrite")));
int ftruncate64(int, ::off_t) __attribute__((alias("ftruncate")));
int fallocate64(int, int, ::off_t, ::off_t) __attribute__((alias("fallocate")));
int stat64(const char* name, struct stat64* status) noexcept {
  if (is_hidden(path_of(AT_FDCWD, name))) return -1;
  return ::fstatat64(AT_FDCWD, name, status, 0);
}
::dirent64* readdir64(::DIR* stream) {
  return listed<::dirent64>("readdir64", stream);
}
}
