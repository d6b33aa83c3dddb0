#pragma once

#include <atomic>
#include <sstream>
#include <stdexcept>
#include <string>

namespace halograd {

/// The one exception type of this project: a message for the user, complete with the values it speaks of.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown on all ranks alike, with the same message: it is printed once, and MPI can still be finalised.
class CollectiveError : public Error {
 public:
  explicit CollectiveError(const std::string& message) : Error(message) { ++alive; }
  CollectiveError(const CollectiveError& other) : Error(other) { ++alive; }
  CollectiveError& operator=(const CollectiveError&) = default;
  ~CollectiveError() override { --alive; }

  /// Whether there is one: what then unwinds this rank's stack unwinds that of every rank.
  static bool exists() { return alive > 0; }

 private:
  inline static std::atomic<int> alive{0};
};

/// Throws Error with the parts written one after the other.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(message.str());
}

}  // namespace halograd

/// Throws halograd::Error with the given parts as message unless the condition holds.
#define HALOGRAD_REQUIRE(condition, ...)             \
  do {                                               \
    if (!(condition)) ::halograd::fail(__VA_ARGS__); \
  } while (false)
