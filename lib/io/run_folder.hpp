#pragma once

#include <cstdint>
#include <string>

namespace halograd {

/// Where a run keeps its files: folder/name with metrics.h5, the resolved run file config.toml, and checkpoints.
struct RunFolder {
  std::string path;
  [[nodiscard]] std::string checkpoints() const { return path + "/checkpoints"; }
  /// checkpoints/step_00001200.h5
  [[nodiscard]] std::string checkpoint(std::int64_t step) const;
  [[nodiscard]] std::string newest() const { return path + "/checkpoint.h5"; }  ///< a link
  [[nodiscard]] std::string best() const { return path + "/best.h5"; }          ///< a link
  [[nodiscard]] std::string metrics() const { return path + "/metrics.h5"; }
  [[nodiscard]] std::string trace() const { return path + "/trace.json"; }
  [[nodiscard]] std::string config() const { return path + "/config.toml"; }
  /// Whether a run has left any of these files here.
  [[nodiscard]] bool holds_run() const;
  [[nodiscard]] bool holds_checkpoint() const;
};

/// What to do with a folder that holds a run already. `set_aside`: its metrics become metrics.h5.1, or the next number
/// that is free; for a run that ended before its first checkpoint and is to be resumed.
enum class ExistingRun { refuse, overwrite, set_aside, keep };

/// Makes the folder. Throws Error.
void make_run_folder(const RunFolder& folder);

/// Makes a folder that is there ready and writes config.toml; for one rank alone. Throws Error where the folder cannot
/// be written, or holds a run and that is to be refused. Nothing is removed unless all else has succeeded.
void prepare_run_folder(const RunFolder& folder, const std::string& config_text, ExistingRun existing);

}  // namespace halograd
