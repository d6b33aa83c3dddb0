#include "io/file_worker.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "kernels/error.hpp"
#include "mpi/mpi_session.hpp"
#include "support/trace.hpp"

namespace halograd {

class FileWorker::Implementation {
  /// What a task threw, without the exception (CollectiveError::exists).
  struct Thrown : Failure {
    bool of_all_ranks;
  };

 public:
  explicit Implementation(const Communicator& comm) : comm_(comm) {}

  [[nodiscard]] const Communicator& comm() const { return comm_; }

  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
      if (tasks_.empty()) return;
      lock.unlock();
      std::optional<Thrown> failure;
      try {
        const trace::Span span("write", "io");
        tasks_.front()();  // the front stays while others are added at the back
      } catch (const CollectiveError& error) {
        failure = {{error.what(), error.foreign()}, error.of_all_ranks()};
      } catch (const std::exception& alone) {
        MpiSession::abort(message_of(alone));  // the others' threads wait for this one, wherever it was
      }
      lock.lock();
      tasks_.pop_front();
      if (failure) {
        failure_ = failure;
        tasks_.clear();
      }
      changed_.notify_all();
    }
  }

  void post(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return;
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
    if (failure_) throw CollectiveError(failure_->message, failure_->of_all_ranks, failure_->foreign);
  }

  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] std::size_t pending() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return tasks_.size();
  }

  [[nodiscard]] Failure error() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_ ? Failure(*failure_) : Failure();
  }

  std::thread thread;

 private:
  OwnedComm comm_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  ///< the first is under way
  bool ending_ = false;
  std::optional<Thrown> failure_;
};

FileWorker::FileWorker(const Communicator& comm) : implementation_(std::make_shared<Implementation>(comm)) {
  implementation_->thread = std::thread([shared = implementation_] { shared->run(); });
}

void FileWorker::stop() {
  if (!implementation_->thread.joinable()) return;
  if (unwinding_.now() && pending() > 0) {
    implementation_->thread.detach();
    return;
  }
  implementation_->end();
  implementation_->thread.join();
}

const Communicator& FileWorker::comm() const {
  return implementation_->comm();
}

void FileWorker::post(std::function<void()> task) {
  implementation_->post(std::move(task));
}

void FileWorker::wait() {
  implementation_->wait();
}

std::size_t FileWorker::pending() const {
  return implementation_->pending();
}

Failure FileWorker::error() const {
  return implementation_->error();
}

}  // namespace halograd
