#pragma once

#include <CLI/CLI.hpp>

/// The subcommands. Each function adds one, with its options and what it does, to the program.
namespace halograd {

/// `halograd topology`: edges, weights, spectral gap and bytes of a topology. Needs no MPI launch.
void add_topology(CLI::App& app);

}  // namespace halograd
