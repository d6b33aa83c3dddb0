#pragma once

#include <string>

namespace halograd {

/// The right to write into a run folder, held by one process of a job (its rank 0) as long as this lives. A lock of the
/// operating system on the file `lock` in it: it ends with the process, however that ends, so that nothing is left to
/// be cleaned up after a crash. On a shared file system it holds for all nodes where the file system has locks (NFS 4,
/// GPFS, Lustre mounted with `flock`).
class RunLock {
 public:
  /// Throws Error naming the holder where another process has it. The folder has to exist.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// false: the file system has no locks, so that nobody notices a second job.
  [[nodiscard]] bool held() const { return held_; }

  /// Writes into the file who the holder is, for those who come later; once the folder is this job's for good.
  void sign();

 private:
  std::string path_;
  int descriptor_ = -1;
  bool held_ = false;
  bool fresh_ = false;  ///< made by this process and not signed: it goes when this does
};

}  // namespace halograd
