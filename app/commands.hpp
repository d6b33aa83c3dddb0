#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/session.hpp"

/// The subcommands. Each function adds one, with its options and what it does, to the program.
namespace halograd {

/// `halograd train FILE`: trains the network of a run file.
void add_train(CLI::App& app, Session& session);

/// `halograd evaluate CHECKPOINT`: accuracy of a checkpoint's mean model and of its replicas.
void add_evaluate(CLI::App& app, Session& session);

/// `halograd predict CHECKPOINT DATA`: what a checkpoint's network says of images without labels, as an HDF5 file.
void add_predict(CLI::App& app, Session& session);

/// `halograd segment CHECKPOINT DATA`: the objects in images, by a flood-filling network, as an HDF5 file.
void add_segment(CLI::App& app, Session& session);

/// `halograd topology`: edges, weights, spectral gap and bytes of a topology. Needs no MPI launch.
void add_topology(CLI::App& app);

/// `halograd inspect FILE`: what a checkpoint or metrics file holds. Needs no MPI launch.
void add_inspect(CLI::App& app);

/// `halograd import SOURCE...`: folders of images, IDX and CIFAR files into one HDF5 file. Needs no MPI launch.
void add_import(CLI::App& app);

/// `halograd convert INPUT OUTPUT`: checkpoints to and from PyTorch state dictionaries, and to ONNX. On one rank.
void add_convert(CLI::App& app, Session& session);

/// `halograd benchmark`: training images per second of networks on one random batch, by layer if wanted.
void add_benchmark(CLI::App& app, Session& session);

/// `halograd jobscript`: a batch script for a Slurm cluster, explained line by line. Needs no MPI launch. `words`: the
/// program's command line, which the script quotes.
void add_jobscript(CLI::App& app, const std::vector<std::string>& words);

/// `halograd simulate`: mixing and step time of up to 65,536 ranks. Measures the network on two ranks or more.
void add_simulate(CLI::App& app, Session& session);

/// `halograd plan`: batch, topology and steps between exchanges for a cluster. Measures the network on one rank.
void add_plan(CLI::App& app, Session& session);

/// `halograd watch RUN`: a live view of a run in the terminal. Needs no MPI launch.
void add_watch(CLI::App& app);

}  // namespace halograd
