#include "support/terminal.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

namespace halograd {
namespace {

struct Process {
  std::string name;
  long parent = 0;  ///< 0: there is none, or /proc does not tell
};

Process process(long id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");  // "12 (name) S 7 ...", where a name may hold brackets
  std::string text;
  std::getline(file, text);
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 > text.size()) return {};
  return {text.substr(open + 1, close - open - 1), std::atol(text.c_str() + close + 4)};
}

bool is_launcher(const std::string& name) {
  for (const char* launcher : {"mpiexec", "mpirun", "orterun", "prterun", "prun", "srun"}) {
    if (name.rfind(launcher, 0) == 0) return true;
  }
  return false;
}

bool output_is_terminal(long id) {
  std::array<char, 64> target{};
  const std::string link = "/proc/" + std::to_string(id) + "/fd/1";
  if (readlink(link.c_str(), target.data(), target.size() - 1) < 0) return false;
  const std::string path = target.data();
  return path.rfind("/dev/pts/", 0) == 0 || path.rfind("/dev/tty", 0) == 0 || path == "/dev/console";
}

}  // namespace

bool output_is_terminal() {
  for (long id = getppid(); id > 1;) {
    const Process ancestor = process(id);
    if (is_launcher(ancestor.name)) return output_is_terminal(id);
    id = ancestor.parent;
  }
  // a rank on another node than its launcher
  const bool launched_by_open_mpi = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  return !launched_by_open_mpi && isatty(STDOUT_FILENO) == 1;
}

}  // namespace halograd
