#include "io/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

/// "process 4711 on node17, Slurm job 123"
std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const char* job = std::getenv("SLURM_JOB_ID");
  return "process " + std::to_string(::getpid()) + " on " + host.data() +
         (job == nullptr ? "" : std::string(", Slurm job ") + job) + "\n";
}

std::string first_line(int descriptor) {
  std::array<char, 512> text{};
  const ::ssize_t count = ::pread(descriptor, text.data(), text.size() - 1, 0);
  const std::string line(text.data(), static_cast<std::size_t>(count > 0 ? count : 0));
  return line.empty() ? "another process" : line.substr(0, line.find('\n'));
}

bool is_still_at(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(const std::string& folder) : path_(folder + "/lock") {
  for (;;) {
    fresh_ = ::access(path_.c_str(), F_OK) != 0;
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    HALOGRAD_REQUIRE(descriptor_ >= 0, "run folder ", folder, ": cannot open ", path_, ": ", system_reason());
    held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    if (!held_ && errno == EWOULDBLOCK) {
      const std::string holder = first_line(descriptor_);
      ::close(descriptor_);
      fail("run folder ", folder, " is in use by ", holder, ": wait for it, or set another name (--set name=...)");
    }
    if (!held_ || is_still_at(descriptor_, path_)) return;
    ::close(descriptor_);  // removed between the two calls
  }
}

void RunLock::sign() {
  const std::string text = this_process();
  const bool written = ::ftruncate(descriptor_, 0) == 0 &&
                       ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<::ssize_t>(text.size());
  HALOGRAD_REQUIRE(written, path_, ": cannot be written: ", system_reason());
  fresh_ = false;
}

RunLock::~RunLock() {
  if (fresh_) ::unlink(path_.c_str());
  ::close(descriptor_);  // and with it the lock
}

}  // namespace halograd
