#include "kernels/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

namespace halograd {

bool machine_has_failed(int error) {
  // memory's, the disk's own, and those of NFS, Lustre and FUSE where a server, its network or its client is gone
  constexpr std::array failures{ENOMEM,   EIO,         ENXIO,      ENODEV,       ESTALE,       EREMOTEIO, ETIMEDOUT,
                                ENOTCONN, ESHUTDOWN,   ECONNRESET, ECONNABORTED, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH,
                                ENETDOWN, ENETUNREACH, ENETRESET,  ENOLINK,      ECOMM};
  return std::find(failures.begin(), failures.end(), error) != failures.end();
}

Foreign foreign_of(const std::exception& error) {
  if (const auto* const collective = dynamic_cast<const CollectiveError*>(&error)) return collective->foreign();
  bool ours = dynamic_cast<const Error*>(&error) != nullptr && dynamic_cast<const MachineError*>(&error) == nullptr;
  if (const auto* const file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    ours = !machine_has_failed(file->code().value());
  }
  return ours ? Foreign::no_rank : Foreign::this_rank;
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
