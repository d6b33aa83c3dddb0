#include "io/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/error.hpp"

namespace halograd {

namespace fs = std::filesystem;

bool RunFolder::holds_run() const {
  return fs::exists(checkpoint()) || fs::exists(metrics()) || fs::exists(config());
}

bool RunFolder::holds_checkpoint() const {
  return fs::exists(checkpoint());
}

void prepare_run_folder(const RunFolder& folder, const std::string& config_text, ExistingRun existing) {
  std::error_code error;
  fs::create_directories(folder.path, error);
  HALOGRAD_REQUIRE(!error, "run folder ", folder.path, ": cannot be made: ", error.message());
  HALOGRAD_REQUIRE(existing != ExistingRun::refuse || !folder.holds_run(), "run folder ", folder.path,
                   " already holds a run: go on with it by --resume, replace it by --overwrite, or set another name "
                   "(--set name=...)");
  const std::string partial = folder.config() + ".partial";
  {
    std::ofstream file(partial);
    file << config_text;
    file.close();
    HALOGRAD_REQUIRE(file, "run folder ", folder.path, ": cannot write ", partial, ": ", std::strerror(errno));
  }
  if (existing == ExistingRun::overwrite) {
    for (const std::string& old : {folder.checkpoint(), folder.metrics()}) {
      fs::remove(old, error);
      HALOGRAD_REQUIRE(!error, "run folder ", folder.path, ": cannot remove ", old, ": ", error.message());
    }
  }
  fs::rename(partial, folder.config(), error);
  HALOGRAD_REQUIRE(!error, "run folder ", folder.path, ": cannot write ", folder.config(), ": ", error.message());
}

}  // namespace halograd
