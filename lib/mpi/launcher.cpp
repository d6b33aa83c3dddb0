#include "mpi/launcher.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace halograd {
namespace {

constexpr int milliseconds_between_looks = 1;

/// The connection to the launcher; -1: there is none, or this MPI does not speak PMI 1 over it.
int connection() {
  for (const char* of_other_clients : {"PMI_Init", "PMI2_Init", "PMIx_Init"}) {
    if (::dlsym(RTLD_DEFAULT, of_other_clients) != nullptr) return -1;
  }
  const char* descriptor = std::getenv("PMI_FD");
  const bool default_version = std::getenv("MPIR_CVAR_PMI_VERSION") == nullptr;
  return descriptor != nullptr && default_version ? std::atoi(descriptor) : -1;
}

/// Sends a line and waits for the launcher's answer, a line as well, or for its end.
void ask(int launcher, std::string_view line, const std::function<void()>& meanwhile) {
  if (::write(launcher, line.data(), line.size()) < 0) return;
  for (char last = 0; last != '\n';) {
    pollfd ready{launcher, POLLIN, 0};
    while (::poll(&ready, 1, milliseconds_between_looks) < 1) meanwhile();
    if (::read(launcher, &last, 1) != 1) return;
  }
}

}  // namespace

bool leave_launcher(const std::function<void()>& progress) {
  const int launcher = connection();
  if (launcher < 0) return false;
  const auto idle = [] {};
  ask(launcher, "cmd=barrier_in\n", progress);
  ask(launcher, "cmd=barrier_in\n", idle);  // now nobody calls MPI, which would complain of those that have left
  ask(launcher, "cmd=finalize\n", idle);
  return true;
}

}  // namespace halograd
