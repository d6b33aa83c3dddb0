#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace halograd {

/// Reads a run file. Each override is "a.b=value" with a TOML value (a bare word is taken as a string) and wins
/// over the file. Relative paths in the file are taken relative to the file's folder.
/// Throws Error naming file, line and column with a caret for what is not TOML, an unknown key, a value of the
/// wrong type or out of its range, and an unknown name (listing those there are).
RunConfig read_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// The same from a text (a checkpoint's attribute, a test); `name` stands for the file in messages.
RunConfig parse_config(const std::string& text, const std::string& name,
                       const std::vector<std::string>& overrides = {});

}  // namespace halograd
