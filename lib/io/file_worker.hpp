#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "kernels/error.hpp"
#include "mpi/communicator.hpp"

namespace halograd {

/// What has ended a task, without the exception.
struct Failure {
  std::string message;  ///< empty: nothing has
  Foreign foreign = Foreign::no_rank;
};

/// A thread that writes files beside the training. Tasks run one after the other in the order in which they were
/// posted, which is the same on all ranks, so that they may call collective functions on the worker's communicator.
class FileWorker {
 public:
  /// Collective.
  explicit FileWorker(const Communicator& comm);
  ~FileWorker() { stop(); }
  FileWorker(const FileWorker&) = delete;
  FileWorker& operator=(const FileWorker&) = delete;

  /// For the tasks alone.
  [[nodiscard]] const Communicator& comm() const;

  /// A task that throws CollectiveError ends the worker: error() then has its message, and what was posted after it is
  /// not done. One that throws anything else, and so on one rank alone, ends all ranks.
  void post(std::function<void()> task);
  /// Ends the thread, for good. Collective, and waits for what was posted, unless an exception that ends this rank
  /// alone is under way: the others will not come, and the process is about to be ended.
  void stop();
  /// Waits until all that was posted is done. Throws the first task's CollectiveError.
  void wait();
  /// Tasks that are waiting or under way.
  [[nodiscard]] std::size_t pending() const;
  /// What the first task that failed has thrown.
  [[nodiscard]] Failure error() const;

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;  ///< shared with the thread, which may outlive this
  Unwinding unwinding_;
};

}  // namespace halograd
