#include "kernels/error.hpp"

#include <new>
#include <system_error>

namespace halograd {

Foreign foreign_of(const std::exception& error) {
  if (const auto* const collective = dynamic_cast<const CollectiveError*>(&error)) return collective->foreign();
  return dynamic_cast<const Error*>(&error) != nullptr ? Foreign::no_rank : Foreign::this_rank;
}

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return std::string("a thread cannot be started (ulimit -u, -v, -d): ") + error.what();
  }
  return *error.what() == '\0' ? "unknown error" : error.what();
}

}  // namespace halograd
