#include "io/checkpoint_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "hdf5/files.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "step_";
constexpr const char* suffix = ".h5";

/// The steps in a name, or -1 where it is no checkpoint's.
std::int64_t steps_in(const std::string& name) {
  const std::size_t start = std::string(prefix).size(), rest = std::string(suffix).size();
  if (name.size() <= start + rest || name.size() > start + rest + 18) return -1;
  const std::string digits = name.substr(start, name.size() - start - rest);
  const bool number = std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  const bool named = name.rfind(prefix, 0) == 0 && name.substr(name.size() - rest) == suffix;
  return named && number ? std::stoll(digits) : -1;
}

void remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  HALOGRAD_REQUIRE(!error, path, ": cannot be removed: ", system_reason(error.value()));
}

}  // namespace

std::vector<std::string> stored_checkpoints(const RunFolder& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.checkpoints(), error)) {
    const std::int64_t steps = steps_in(entry.path().filename().string());
    if (steps >= 0) found.emplace_back(steps, entry.path().string());
  }
  const bool absent = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  HALOGRAD_REQUIRE(!error || absent, folder.checkpoints(), ": cannot be read: ", system_reason(error.value()));
  // a node's list of a folder may be older than what it finds by name (NFS): the newest must not be missed
  const std::string newest = link_target(folder, folder.newest());
  const std::int64_t linked = steps_in(fs::path(newest).filename().string());
  const bool listed = std::any_of(found.begin(), found.end(), [&](const auto& each) { return each.first == linked; });
  if (linked >= 0 && !listed && fs::exists(newest, error)) found.emplace_back(linked, newest);
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (auto& [steps, path] : found) paths.push_back(std::move(path));
  return paths;
}

void prepare_checkpoints(const RunFolder& folder) {
  std::error_code error;
  fs::create_directories(folder.checkpoints(), error);
  HALOGRAD_REQUIRE(!error, folder.checkpoints(), ": cannot be made: ", system_reason(error.value()));
  const bool writable = ::access(folder.checkpoints().c_str(), W_OK | X_OK) == 0;
  HALOGRAD_REQUIRE(writable, folder.checkpoints(), ": cannot be written: ", system_reason());
  std::vector<std::string> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.checkpoints())) {
    if (entry.path().extension() == ".partial") leftovers.push_back(entry.path().string());
  }
  for (const std::string& path : leftovers) remove(path);
}

void point_link(const std::string& link, const std::string& checkpoint) {
  const std::string partial = link + ".partial";
  std::error_code error;
  fs::remove(partial, error);
  const fs::path target = fs::path(checkpoint).lexically_relative(fs::path(link).parent_path());
  fs::create_symlink(target, partial, error);
  if (!error) fs::rename(partial, link, error);
  HALOGRAD_REQUIRE(!error, link, ": cannot be made a link to ", checkpoint, ": ", system_reason(error.value()));
  sync_folder_of(link);  // before the checkpoint that it led to is removed
}

std::string link_target(const RunFolder& folder, const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? "" : folder.path + "/" + target.string();
}

void set_aside(const std::string& checkpoint, const std::string& ending) {
  std::error_code error;
  fs::rename(checkpoint, checkpoint + ending, error);
  HALOGRAD_REQUIRE(!error, checkpoint, ": cannot be renamed: ", system_reason(error.value()));
}

void remove_old_checkpoints(const RunFolder& folder, int keep, const std::string& best) {
  const std::vector<std::string> stored = stored_checkpoints(folder);
  for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < stored.size(); ++i) {
    if (best.empty() || fs::path(stored[i]).filename() != fs::path(best).filename()) remove(stored[i]);
  }
}

}  // namespace halograd
