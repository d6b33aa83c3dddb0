#include "mpi/watchdog.hpp"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "mpi/node_links.hpp"
#include "mpi/node_memory.hpp"
#include "mpi/placement.hpp"
#include "support/job_notes.hpp"

namespace halograd {
namespace {

constexpr int nobody = -1;
constexpr int look_milliseconds = 1000;
constexpr auto grace = std::chrono::seconds(2);

using NodeName = std::array<char, 64>;

/// A process of this node.
struct Process {
  std::int64_t rank = 0, id = 0;
  std::int64_t name_space = 0;  ///< in which `id` means this process
};

std::int64_t own_name_space() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? static_cast<std::int64_t>(status.st_ino) : 0;
}

int open_process(std::int64_t id) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(id), 0));
#else
  return id < 0 ? -1 : -1;
#endif
}

bool is_gone(std::int64_t id) {
  return ::kill(static_cast<pid_t>(id), 0) != 0 && errno == ESRCH;
}

}  // namespace

class Watchdog::Implementation {
 public:
  Implementation(const Communicator& comm, int status)
      : comm_(comm), node_(comm.node()), rank_(comm.rank()), status_(status) {
    const bool leads = node_.rank() == 0;
    const OwnedComm peers = comm.split(leads ? 0 : 1);
    find_processes();
    NodeName name{};
    node_name().copy(name.data(), name.size() - 1);
    nodes_ = comm.gather(name);
    word_memory_ = NodeMemory(comm, sizeof(std::int64_t));
    share_word(leads);
    if (leads) links_ = std::make_unique<NodeLinks>(peers, rank_);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] { watch(); });
  }

  ~Implementation() {
    stop();
    ::close(stop_);
    for (const int descriptor : descriptors_) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  [[nodiscard]] bool reaches_all_nodes() const { return links_ == nullptr || links_->complete(); }

  void end() {
    comm_.barrier();  // until here a death is one
    stop();
    comm_.barrier();  // who leaves it may end: nobody watches any more
  }

 private:
  void stop() {
    ending_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_, &one, sizeof one);
    if (thread_.joinable()) thread_.join();
    links_.reset();
  }

  /// The node's first rank hears first who has died elsewhere, and leaves word for those who only see it end.
  void share_word(bool first) {
    word_ = static_cast<std::int64_t*>(word_memory_.of(0));
    if (first) *word_ = nobody;
    node_.barrier();
  }

  void find_processes() {
    const Process own{rank_, ::getpid(), own_name_space()};
    for (const Process& process : node_.gather(own)) {
      if (process.rank == rank_ || process.name_space != own.name_space) continue;
      processes_.push_back(process);
      descriptors_.push_back(open_process(process.id));
    }
  }

  void watch() {
    sigset_t signals;
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // they are for the training's thread
    while (!ending_) {
      std::vector<pollfd> ready{{stop_, POLLIN, 0}};
      for (const int descriptor : descriptors_) ready.push_back({descriptor, POLLIN, 0});  // negative: ignored
      if (links_ != nullptr) links_->add_to(ready);
      ::poll(ready.data(), ready.size(), look_milliseconds);
      const int here = dead_here(ready);
      const int there = here == nobody && links_ != nullptr ? links_->look() : nobody;
      if (ending_ || (here == nobody && there == nobody)) continue;
      end_job(here, there);
    }
  }

  void end_job(int here, int there) {
    const std::atomic_ref<std::int64_t> word(*word_);
    const bool told = word.load() != nobody;
    if (links_ != nullptr) {
      if (here == nobody) word.store(there);
      links_->tell(std::max(here, there));
    }
    const int dead = std::max(here, there);
    if (here == nobody || (!told && first_alive())) {  // at once: the launcher may end this rank soon
      note_for_job("died " + std::to_string(dead) + " " + nodes_[static_cast<std::size_t>(dead)].data());
    }
    std::this_thread::sleep_for(grace);
    if (ending_) return;
    if (here == nobody || (!told && first_alive())) {
      std::fprintf(stderr, "halograd: rank %d has died; rank %d and the others end with status %d (--resume)\n", dead,
                   rank_, status_);
    }
    ::_exit(status_);
  }

  /// The lowest rank of this node whose process has ended; remembers those that have.
  int dead_here(const std::vector<pollfd>& ready) {
    int dead = nobody;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const bool gone = descriptors_[i] >= 0 ? ready[i + 1].revents != 0 : is_gone(processes_[i].id);
      if (!gone) continue;
      dead_.push_back(static_cast<int>(processes_[i].rank));
      if (dead == nobody) dead = static_cast<int>(processes_[i].rank);
    }
    return dead;
  }

  /// Whether all lower ranks of this node were dead when the first death was seen.
  [[nodiscard]] bool first_alive() const {
    return std::none_of(processes_.begin(), processes_.end(), [this](const Process& process) {
      const int rank = static_cast<int>(process.rank);
      return rank < rank_ && std::find(dead_.begin(), dead_.end(), rank) == dead_.end();
    });
  }

  OwnedComm comm_;
  Communicator node_;
  NodeMemory word_memory_;
  std::int64_t* word_ = nullptr;  // the rank that has died elsewhere; nobody: none has
  int rank_, status_, stop_ = -1;
  std::vector<NodeName> nodes_;  ///< of each rank
  std::vector<Process> processes_;
  std::vector<int> descriptors_, dead_;
  std::unique_ptr<NodeLinks> links_;  // of a node's first rank
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

Watchdog::Watchdog(const Communicator& comm, int status)
    : implementation_(std::make_unique<Implementation>(comm, status)) {}
Watchdog::~Watchdog() = default;

bool Watchdog::reaches_all_nodes() const {
  return implementation_->reaches_all_nodes();
}

void Watchdog::end() {
  implementation_->end();
}

}  // namespace halograd
