#include "io/run_folder.hpp"

#include <filesystem>

#include "hdf5/files.hpp"
#include "io/checkpoint_store.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"
#include "support/text_file.hpp"

namespace halograd {

namespace fs = std::filesystem;

std::string RunFolder::checkpoint(std::int64_t step) const {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return checkpoints() + "/step_" + digits + ".h5";
}

bool RunFolder::holds_run() const {
  return holds_checkpoint() || fs::exists(metrics()) || fs::exists(config());
}

bool RunFolder::holds_checkpoint() const {
  return !stored_checkpoints(*this).empty();
}

void make_run_folder(const RunFolder& folder) {
  std::error_code error;
  fs::create_directories(folder.path, error);
  HALOGRAD_REQUIRE(!error, "run folder ", folder.path, ": cannot be made: ", system_reason(error.value()));
}

void prepare_run_folder(const RunFolder& folder, const std::string& config_text, ExistingRun existing) {
  std::error_code error;
  HALOGRAD_REQUIRE(existing != ExistingRun::refuse || !folder.holds_run(), "run folder ", folder.path,
                   " already holds a run: continue it with --resume, replace it with --overwrite, or set another name "
                   "(--set name=...)");
  const std::string partial = folder.config() + ".partial";
  write_text(partial, config_text);
  if (existing == ExistingRun::overwrite) {
    for (const std::string& old : {folder.newest(), folder.best(), folder.checkpoints(), folder.metrics()}) {
      fs::remove_all(old, error);
      HALOGRAD_REQUIRE(!error, "run folder ", folder.path, ": cannot remove ", old, ": ", system_reason(error.value()));
    }
  }
  if (existing == ExistingRun::set_aside && fs::exists(folder.metrics())) {
    int number = 1;
    while (fs::exists(folder.metrics() + "." + std::to_string(number))) ++number;
    fs::rename(folder.metrics(), folder.metrics() + "." + std::to_string(number), error);
    HALOGRAD_REQUIRE(!error, "run folder ", folder.path, ": cannot rename ", folder.metrics(), ": ",
                     system_reason(error.value()));
  }
  publish_file(partial, folder.config());
}

}  // namespace halograd
