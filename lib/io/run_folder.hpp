#pragma once

#include <string>

namespace halograd {

/// Where a run keeps its files: folder/name with checkpoint.h5, metrics.h5 and the resolved run file config.toml.
struct RunFolder {
  std::string path;
  [[nodiscard]] std::string checkpoint() const { return path + "/checkpoint.h5"; }
  [[nodiscard]] std::string metrics() const { return path + "/metrics.h5"; }
  [[nodiscard]] std::string config() const { return path + "/config.toml"; }
  /// Whether a run has left any of these files here.
  [[nodiscard]] bool holds_run() const;
  [[nodiscard]] bool holds_checkpoint() const;
};

/// What to do with a folder that holds a run already.
enum class ExistingRun { refuse, overwrite, keep };

/// Makes the folder ready and writes config.toml; for one rank alone. Throws Error where the folder cannot be written,
/// or holds a run and that is to be refused. Nothing is removed unless all else has succeeded.
void prepare_run_folder(const RunFolder& folder, const std::string& config_text, ExistingRun existing);

}  // namespace halograd
