#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "averagers/averager_table.hpp"
#include "averagers/codec_table.hpp"
#include "config/allowed.hpp"
#include "config/config.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "graph/topology_table.hpp"
#include "nn/layer_types.hpp"
#include "nn/losses.hpp"
#include "nn/precisions.hpp"
#include "nn/reference_networks.hpp"
#include "optimizers/optimizers.hpp"
#include "run/training_choices.hpp"
#include "support/text.hpp"
#include "window/transport_options.hpp"

/// Every key of a run file: its name, member, meaning and what it may be, each on one line of a visit() below and
/// nowhere else. Reader, writer, the check for unknown keys and the test of docs/run-files.md are visitors. A new key
/// is a member with its default in a header of config.hpp and a line here.
///
/// A visitor has these members:
///   void operator()(key, T& member, meaning, Allowed)       for a value; the meaning is a std::string
///   void section(key, Struct& member, meaning)              for a table
///   void list(key, std::vector<Struct>& member, meaning)    for an array of tables
namespace halograd {

/// "a: what a does; b: what b does", of rows that have a meaning.
template <class Table>
std::string meanings_of(const Table& table) {
  std::string text;
  for (const auto& row : table) text += (text.empty() ? "" : "; ") + std::string(row.name) + ": " + *row.meaning;
  return text;
}

/// "neighbour, hierarchical: ", the averagers that read a key of [averager], to begin its meaning with.
std::string readers(const char* key);
/// The same for the topologies that read a key of [topology].
std::string graphs_with(const char* key);

template <class Visitor>
void visit(Visitor& v, TrainingConfig& c) {
  v("epochs", c.epochs, "passes over the training images", at_least(1));
  v("batch", c.batch, "images per step, over all ranks together", at_least(1));
  v("seed", c.seed, "seed of the initial weights, shuffling, augmentation and dropout", at_least(0));
  v("threads", c.threads,
    "threads per rank; 0: OMP_NUM_THREADS, else SLURM_CPUS_PER_TASK, else the node's usable cores divided by its ranks",
    at_least(0));
  v("ranks_per_device", c.ranks_per_device, "ranks that may share an accelerator", at_least(1));
  v("shares", c.shares, "each rank's part of a batch: equal, or in proportion to its images/s in the previous epoch",
    one_of(names_of(share_choices)));
  v("resumed_optimizer", c.resumed_optimizer,
    "when a run is resumed on a different number of ranks, the optimizer's state starts from the mean of the replicas' "
    "states, or from zero",
    one_of(names_of(resumed_optimizer_choices)));
  v("non_finite", c.non_finite,
    "when a rank's loss or gradient is not finite, all ranks stop with a checkpoint of the last good state, or this "
    "rank skips its update and the skip is counted",
    one_of(names_of(non_finite_choices)));
  v("precision", c.precision, "what convolutions and dense layers multiply; " + meanings_of(precisions()),
    one_of(names_of(precisions())));
  v("step_recording", c.step_recording,
    "on devices, a step is recorded once and then launched as a whole where possible (auto), or launched piece by "
    "piece (off)",
    one_of(names_of(step_recording_choices)));
  v("time_limit", c.time_limit,
    "seconds after which a run stops with a checkpoint, from which it can be resumed; 0: no limit", at_least(0));
}

/// The data formats whose data.path is a folder, or a file.
inline std::string formats_with(DataPath path) {
  std::vector<std::string> names;
  for (const DatasetFormat& format : dataset_formats()) {
    if (format.path == path) names.emplace_back(format.name);
  }
  return listed(names);
}

template <class Visitor>
void visit(Visitor& v, DataConfig& c) {
  v("format", c.format, "how the images are stored; " + meanings_of(dataset_formats()),
    one_of(names_of(dataset_formats())));
  v("path", c.path,
    "folder (" + formats_with(DataPath::folder) + ") or file (" + formats_with(DataPath::file) +
        "), relative to the run file",
    a_path());
  v("mean", c.mean,
    "subtracted from the images, one number per channel, on a scale where the largest value is 1; empty: 0", Allowed{});
  v("standard_deviation", c.standard_deviation, "the images are divided by it, one number per channel; empty: 1",
    above(0));
  v("pad_crop", c.pad_crop, "training images are padded by this many zeros, then cropped at random", at_least(0));
  v("flip", c.flip, "training images are mirrored left to right at random", Allowed{});
  v("prefetch", c.prefetch, "a thread prepares the next batches during a step", Allowed{});
  v("prefetch_batches", c.prefetch_batches, "number of batches that the prefetch thread keeps ready", between(1, 1024));
  v("shuffle", c.shuffle,
    "which training images may meet in a batch: any of them (full), or those of one window (window); ring: batches go "
    "from rank to rank, one epoch each (docs/data.md)",
    one_of(names_of(shuffle_kinds())));
  v("shuffle_window", c.shuffle_window, "window: number of blocks, of about 1 MiB each, that are shuffled together",
    between(1, 65536));
  v("readers", c.readers, "hdf5: threads per rank that read blocks ahead", between(1, 64));
  v("cache_memory", c.cache_memory,
    "hdf5: bytes of each set that a rank keeps in memory; objects: a set that takes more is refused", at_least(0));
  v("cache_folder", c.cache_folder, "hdf5: folder on the node's own disk that caches blocks for its ranks; empty: none",
    a_path());
  v("throttle_mb_per_second", c.throttle_mb_per_second,
    "hdf5, for tests: slows a rank's file reads down to this rate; 0: no limit", at_least(0));
  v("objects_field", c.objects_field,
    "objects: extents of a field, one for each axis of the volumes or one for all of them", at_least(1));
  v("objects_background", c.objects_background, "objects: share of the fields that are centred on no object",
    at_least_and_below(0, 1));
  v("objects_train", c.objects_train, "objects: number of training fields, drawn from all volumes", at_least(1));
  v("objects_test", c.objects_test, "objects: number of test fields", at_least(1));
  v("synthetic_train", c.synthetic_train, "synthetic: number of training images", at_least(1));
  v("synthetic_test", c.synthetic_test, "synthetic: number of test images", at_least(1));
  v("synthetic_shape", c.synthetic_shape,
    "synthetic: height, width and channels of an image; volumes have a depth before them, rows of values have no "
    "height",
    at_least(1));
  v("synthetic_classes", c.synthetic_classes, "synthetic: number of classes", at_least(2));
  v("synthetic_labels", c.synthetic_labels,
    "synthetic: one class per image, or for each pixel whether it lies in a tube",
    one_of(names_of(synthetic_labels())));
}

/// Which keys a layer takes is in the row of its type: a visitor that reads has set `type` when it comes to the others.
template <class Visitor>
void visit(Visitor& v, LayerConfig& c) {
  v("type", c.type, "what the layer does", required(one_of(names_of(layer_types()))));
  v("name", c.name, "a unique name; by default the type and a running number: conv1, conv2, dense1", a_plain_name());
  v("inputs", c.inputs, "names of earlier layers, or \"input\" for the images; empty: the layer before", Allowed{});
  const LayerType* const type = find_row(layer_types(), c.type);
  if (type == nullptr) return;
  const auto of_type = [&](const char* key, auto& member, const char* meaning, const Allowed& allowed) {
    const auto among = [key](const LayerKeys& keys) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
    if (among(type->needs)) {
      v(key, member, meaning, required(allowed));
    } else if (among(type->takes)) {
      v(key, member, meaning, allowed);
    }
  };
  of_type("channels", c.channels, "output channels", at_least(1));
  of_type("first", c.first, "the first channel, counted from 0", at_least(0));
  of_type("kernel", c.kernel, "size of the window", at_least(1));
  of_type("stride", c.stride, "pixels from one window to the next", at_least(1));
  of_type("padding", c.padding, "pixels added on each side", at_least(0));
  of_type("dilation", c.dilation, "pixels from one element of the kernel to the next", at_least(1));
  of_type("output_padding", c.output_padding, "pixels added at the end of the output, fewer than stride", at_least(0));
  of_type("groups", c.groups, "groups of neighbouring channels, each treated by itself", at_least(1));
  of_type("bias", c.bias, "adds a trained number to each output channel", Allowed{});
  of_type("factor", c.factor, "copies of each pixel along each axis", at_least(1));
  of_type("slope", c.slope, "factor on negative values", at_least(0));
  of_type("scale", c.scale, "factor on the function's value", above(0));
  of_type("probability", c.probability, "share of values set to zero", at_least_and_below(0, 1));
  of_type("epsilon", c.epsilon, "added to the variance", above(0));
  of_type("momentum", c.momentum, "weight of a new batch in the running statistics", above_and_at_most(0, 1));
}

template <class Visitor>
void visit(Visitor& v, NetworkConfig& c) {
  static const std::string names =
      "a reference network (" + listed(names_of(reference_networks())) + "), or any name for a list of layers";
  v("name", c.name, names, a_plain_name());
  v.list("layer", c.layers, "the layers in order; none: the reference network of that name");
}

template <class Visitor>
void visit(Visitor& v, FloodFillingConfig& c) {
  v("view", c.view,
    "extents of a field of view along the spatial axes of an image: all that the network sees at once, with the mask "
    "of "
    "the object before its channels; 0: none, the network sees whole images",
    at_least(0));
  v("move", c.move, "pixels along each axis from a field of view to the next; 0: none along this axis", at_least(0));
  v("visits", c.visits, "training: fields of view of an image, at most", at_least(1));
  v("move_threshold", c.move_threshold, "moves where the object is at least so probable", at_least_and_below(0.5, 1));
}

template <class Visitor>
void visit(Visitor& v, LossConfig& c) {
  v("name", c.name, meanings_of(losses()), one_of(names_of(losses())));
  v("label_smoothing", c.label_smoothing, "cross-entropies: share of the target that is spread over all classes",
    at_least_and_below(0, 1));
}

template <class Visitor>
void visit(Visitor& v, OptimizerConfig& c) {
  const auto some = [&v](const char* key, auto& member, const char* meaning, const Allowed& allowed) {
    v(key, member, readers_of(optimizers(), key) + ": " + meaning, allowed);
  };
  v("name", c.name, meanings_of(optimizers()), one_of(names_of(optimizers())));
  v("learning_rate", c.learning_rate, "learning rate before the schedule's factor", above(0));
  some("momentum", c.momentum, "share of the last update that is kept", at_least_and_below(0, 1));
  some("nesterov", c.nesterov, "uses Nesterov's momentum", Allowed{});
  v("weight_decay", c.weight_decay, "weight decay; adamw: decoupled; the others: added to the gradient", at_least(0));
  some("beta1", c.beta1, "decay of the gradient's mean", at_least_and_below(0, 1));
  some("beta2", c.beta2, "decay of the squared gradient's mean", at_least_and_below(0, 1));
  some("epsilon", c.epsilon, "added to the denominator", above(0));
}

template <class Visitor>
void visit(Visitor& v, ScheduleConfig& c) {
  const auto some = [&v](const char* key, auto& member, const char* meaning, const Allowed& allowed) {
    v(key, member, readers_of(schedules(), key) + ": " + meaning, allowed);
  };
  v("name", c.name, meanings_of(schedules()), one_of(names_of(schedules())));
  v("warmup_epochs", c.warmup_epochs, "epochs over which the rate first rises linearly from 0", at_least(0));
  some("milestones", c.milestones, "epochs at which the rate is multiplied by gamma, ascending", above(0));
  some("gamma", c.gamma, "factor at each milestone", above_and_at_most(0, 1));
  some("final_factor", c.final_factor, "factor at the end", between(0, 1));
}

template <class Visitor>
void visit(Visitor& v, AveragerConfig& c) {
  v("name", c.name, meanings_of(averagers()), one_of(names_of(averagers())));
  v("order", c.order, readers("order") + "when weights are mixed; " + meanings_of(orders), one_of(names_of(orders)));
  v("staleness", c.staleness,
    readers("staleness") +
        "steps by which what a neighbour has sent may be behind; 0: none, -1: any number, so that no rank waits for "
        "another; above 0 with neighbour only",
    at_least(-1));
  v("age_factor", c.age_factor,
    readers("age_factor") + "factor on the mixing weight for each step that the neighbour is behind",
    above_and_at_most(0, 1));
  v("patience", c.patience,
    readers("patience") + "seconds after which a late neighbour is left out until it publishes again; 0: wait for it",
    at_least(0));
  v("overlap", c.overlap,
    readers("overlap") +
        "adds up what was sent in the previous step, so that the exchange overlaps with a step's computation",
    Allowed{});
  v("every", c.every,
    "steps from one exchange to the next; with consensus_target, the longest interval that it may choose", at_least(1));
  v("consensus_target", c.consensus_target,
    "exchanges as often as it takes to keep the replicas' distance to their mean at this multiple of a step's length; "
    "0: every `every` steps",
    at_least(0));
  v("global_every", c.global_every,
    "interval in steps at which the exact mean of all replicas replaces each of them; 0: never", at_least(0));
  v("codec", c.codec,
    readers("codec") + "how gradients (allreduce: fp32 or bf16) or weights travel; of weights the differences from " +
        "what was sent before, so that what a code loses is sent with the next one; " + meanings_of(codecs()),
    one_of(names_of(codecs())));
  v("kept_share", c.kept_share, "top_k: share of the differences, the largest ones, that is sent",
    above_and_at_most(0, 1));
  v("consensus_step", c.consensus_step,
    "codecs: share of the way towards the neighbours that an exchange goes; 0: the whole way, with top_k twice "
    "kept_share",
    between(0, 1));
  v("elasticity", c.elasticity,
    readers("elasticity") + "share of the way to the replicas' mean that the centre moves in an exchange",
    above_and_at_most(0, 1));
  v("sync_epochs", c.sync_epochs,
    readers("sync_epochs") + "epochs after which all ranks continue from the best replica; 0: never", at_least(0));
  v("momentum", c.momentum, meanings_of(momenta), one_of(names_of(momenta)));
}

template <class Visitor>
void visit(Visitor& v, TopologyConfig& c) {
  v("kind", c.kind, "the ranks whose weights rank i takes; " + meanings_of(topologies()),
    one_of(names_of(topologies())));
  v("file", c.file,
    graphs_with("file") + "TOML file with the number of ranks and an [[edge]] with from, to and weight for each edge",
    a_path());
  v("weights", c.weights, "mixing weights; " + meanings_of(weight_rules()), one_of(names_of(weight_rules())));
  v("degree", c.degree, graphs_with("degree") + "neighbours per rank, an even number", at_least(2));
  v("seed", c.seed, graphs_with("seed") + "selects the random graphs", at_least(0));
}

template <class Visitor>
void visit(Visitor& v, ParallelConfig& c) {
  v("spatial", c.spatial,
    "blocks along each spatial axis of an image (depth, height, width): so many ranks share a replica, each with a "
    "block of every activation; 1: each rank has a replica for itself",
    at_least(1));
  v("channels", c.channels,
    "ranks that share a replica, all of a group: each multiplies its part of the input channels of dense layers and "
    "1x1 "
    "convolutions whose images `spatial` does not cut; 1: all ranks of a group compute all of these",
    at_least(1));
}

template <class Visitor>
void visit(Visitor& v, InjectConfig& c) {
  v("slow_rank", c.slow_rank, "this rank computes slowly, of ranks that share replicas this group; -1: none",
    at_least(-1));
  v("slow_factor", c.slow_factor, "factor by which that rank's computation takes longer", at_least(1));
  v("compute_us", c.compute_us, "least time that a step's computation takes on every rank, in microseconds",
    at_least(0));
  v("latency_us", c.latency_us, "microseconds by which a halo, or each message of a ring all-reduce, arrives later",
    at_least(0));
  v("bandwidth_mb", c.bandwidth_mb,
    "MB (10^6 bytes) per second at which the messages of a rank leave, one after the other; 0: no limit", at_least(0));
  v("drop_fraction", c.drop_fraction, "neighbour with staleness -1 or patience: share of the halos that is lost",
    at_least_and_below(0, 1));
  v("seed", c.seed, "selects the halos that are lost", at_least(0));
}

template <class Visitor>
void visit(Visitor& v, CommConfig& c) {
  v("force_put", c.force_put, "halos between ranks that share memory travel as between nodes, to test that path",
    Allowed{});
  v("ranks_per_node", c.ranks_per_node,
    "hierarchical: number of consecutive ranks that count as a node, all of which share memory; 0: all ranks that do "
    "are a node",
    at_least(0));
  v("slots", c.slots, "versions of the weights that can be in flight on an edge", at_least(2));
  v("progress_us", c.progress_us,
    "microseconds between two polls of the thread that receives messages while a rank computes and, where MPI "
    "progresses transfers only inside MPI calls, keeps puts going; up to 8 times as long while nothing comes; 0: no "
    "such thread",
    at_least(0));
  v("transport", c.transport, "how halos travel between nodes; " + meanings_of(transports),
    one_of(names_of(transports)));
  v("piece_kb", c.piece_kb,
    "what is written to another node goes in pieces of so many times 1024 bytes; 0: whole, or " +
        std::to_string(piece_kb_of_slow_links) + " where a self-test finds a link below " +
        std::to_string(slow_link_mb) + " MB/s",
    at_least(0));
  v("report_seconds", c.report_seconds,
    "a wait for a neighbour that lasts longer is reported, with the rank that is late", above(0));
  v("device_windows", c.device_windows,
    "neighbour, on devices: whether halos go directly from device memory to device memory; " +
        meanings_of(device_windows),
    one_of(names_of(device_windows)));
  v.section("inject", c.inject,
            "What is injected on purpose: stragglers, latency, a limited bandwidth and losses, all repeatable.");
}

template <class Visitor>
void visit(Visitor& v, OutputConfig& c) {
  v("folder", c.folder, "a run is kept in folder/name; relative to the folder in which the program is started",
    Allowed{});
  v("checkpoint_epochs", c.checkpoint_epochs, "epochs between two checkpoints, with one more at the end; 0: none",
    at_least(0));
  v("checkpoint_steps", c.checkpoint_steps,
    "steps between two checkpoints, in addition to those of checkpoint_epochs; 0: none", at_least(0));
  v("checkpoint_minutes", c.checkpoint_minutes,
    "minutes without a checkpoint after which one is written, at the step that the clock decides; 0: no limit",
    at_least(0));
  v("local_steps", c.local_steps,
    "steps between copies of the state on the nodes' own disks, each rank's on its node and, where there are several, "
    "on another one, from which --resume makes the newest checkpoint again; 0: none",
    at_least(0));
  v("local_folder", c.local_folder,
    "of each node, where these copies are: a folder, or an environment variable that names one (\"$TMPDIR\")",
    Allowed{});
  v("keep", c.keep, "number of checkpoints that are kept, the newest ones", at_least(1));
  v("keep_best", c.keep_best, "the checkpoint of the best mean model on the test set is kept too", Allowed{});
  v("compress", c.compress, "checkpoints are compressed without loss: smaller, and slower to write", Allowed{});
  v("print_steps", c.print_steps, "without a terminal: steps between two lines of progress; 0: only the epochs' rows",
    at_least(0));
}

template <class Visitor>
void visit(Visitor& v, RunConfig& c) {
  v("name", c.name, "name of the run and of its folder", a_plain_name());
  v.section("training", c.training, "How long training runs, and with which batches and threads.");
  v.section("data", c.data, "Where the images are and how a batch is made of them.");
  v.section("network", c.network, "A reference network by name, or a list of layers.");
  v.section("flood_filling", c.flood_filling, "Networks that follow one object through an image, view by view.");
  v.section("loss", c.loss, "What training minimises.");
  v.section("optimizer", c.optimizer, "How a gradient changes the weights.");
  v.section("schedule", c.schedule, "How the learning rate changes during the run.");
  v.section("averager", c.averager, "How the ranks' replicas are kept together.");
  v.section("topology", c.topology, "The directed graph on the ranks, along which averagers exchange.");
  v.section("parallel", c.parallel, "Groups of ranks that share one replica.");
  v.section("comm", c.comm, "How halos travel between ranks.");
  v.section("output", c.output, "What a run writes and prints.");
}

}  // namespace halograd
