#pragma once

#include <atomic>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace halograd {

/// The one exception type of this project: a message for the user, complete with the values it speaks of.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An Error that no change of the run's files or arguments would mend: a disk, a server of files or memory has failed a
/// call, and may do better later.
class MachineError : public Error {
 public:
  using Error::Error;
};

/// Why a call of the system failed, in words, as a part of a message.
struct SystemReason {
  std::string text;
  bool of_machine = false;  ///< a disk, a server of files or memory has failed: see machine_has_failed()
};

inline std::ostream& operator<<(std::ostream& stream, const SystemReason& reason) {
  return stream << reason.text;
}

/// Whether this errno stands for memory that has run out, or for a disk or a server of files that fails by itself, and
/// not for what the user is to mend, such as a full disk, a quota or permissions.
bool machine_has_failed(int error);

/// Which rank had an exception that is no Error, but a library's, a device's, a disk's or the system's, and may not
/// come again.
enum class Foreign { no_rank, this_rank, another_rank };

/// Thrown on all ranks of a communicator alike, with the same message. Where those are all ranks of the job it is
/// printed once, and MPI can still be finalised; ranks of a part of the job abort it, as others may wait for them.
class CollectiveError : public Error {
 public:
  CollectiveError(const std::string& message, bool of_all_ranks, Foreign foreign = Foreign::no_rank)
      : Error(message), of_all_ranks_(of_all_ranks), foreign_(foreign) {
    alive += of_all_ranks_;
  }
  CollectiveError(const CollectiveError& other) : CollectiveError(other.what(), other.of_all_ranks_, other.foreign_) {}
  CollectiveError& operator=(const CollectiveError&) = delete;
  ~CollectiveError() override { alive -= of_all_ranks_; }

  [[nodiscard]] bool of_all_ranks() const { return of_all_ranks_; }
  /// What it stands for on all ranks.
  [[nodiscard]] Foreign foreign() const { return foreign_; }
  /// Whether there is one of all ranks: what then unwinds this rank's stack unwinds that of every rank. So none may
  /// outlast its handling.
  static bool exists() { return alive > 0; }

 private:
  inline static std::atomic<int> alive{0};
  bool of_all_ranks_;
  Foreign foreign_;
};

/// Which rank an exception comes from; no_rank for an Error but a MachineError.
Foreign foreign_of(const std::exception& error);

/// What went wrong, for a user: a library's exception may say little where memory or threads have run out.
std::string message_of(const std::exception& error);

/// Throws Error with the parts written one after the other; MachineError where one of them is a SystemReason that says
/// so.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  bool of_machine = false;
  const auto look_at = [&]<class Part>(const Part& part) {
    if constexpr (std::is_same_v<Part, SystemReason>) of_machine = of_machine || part.of_machine;
  };
  (look_at(parts), ...);
  if (of_machine) throw MachineError(message.str());
  throw Error(message.str());
}

}  // namespace halograd

/// Throws halograd::Error with the given parts as message unless the condition holds.
#define HALOGRAD_REQUIRE(condition, ...)             \
  do {                                               \
    if (!(condition)) ::halograd::fail(__VA_ARGS__); \
  } while (false)
