#pragma once

#include <CLI/CLI.hpp>

namespace halograd {

/// Each registers one subcommand whose callback does its work and throws Error.
void add_inspect(CLI::App& app);  ///< inspect FILE [--json]: what a checkpoint or a metrics file holds

}  // namespace halograd
