#include "train/segmentation.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "app/commands.hpp"
#include "data/cut_dataset.hpp"
#include "io/checkpoint.hpp"
#include "io/object_file.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

struct SegmentArguments {
  std::string checkpoint, data, output, replica = "mean";
  std::vector<std::string> overrides;
  SegmentationRules rules;
  bool consensus = false, train = false, overwrite = false, json = false;
};

/// This rank's slab of each of the images at arguments.data.
struct Slabs {
  std::unique_ptr<Dataset> set;
  std::unique_ptr<Loader> loader;
  Shape whole;
  int axis = 0, margin = 0;
  Slab slab{};
  [[nodiscard]] int extent() const { return whole.extents()[axis]; }
  /// Pixels of one step along the axis.
  [[nodiscard]] long row() const { return whole.pixels() / extent(); }
};

Slabs open_slabs(const SegmentArguments& arguments, const RunConfig& config, const Communicator& comm) {
  HALOGRAD_REQUIRE(fs::exists(arguments.data), arguments.data, ": no such file or folder");
  Slabs slabs;
  auto whole = open_images(data_at(arguments.data, config.data), arguments.train ? Split::train : Split::test,
                           node_warning(comm));
  slabs.whole = whole->shape();
  slabs.axis = 3 - slabs.whole.dimensions;
  slabs.margin = view_of(config.flood_filling, slabs.whole).extents()[slabs.axis];
  slabs.slab = slab_of(slabs.extent(), slabs.margin, comm.rank(), comm.ranks());
  slabs.set = cut_dataset(std::move(whole), [&slabs](const Shape& shape) {
    Box box = Box::whole(shape);
    box.begin[slabs.axis] = slabs.slab.begin;
    box.end[slabs.axis] = slabs.slab.end;
    return box;
  });
  LoaderOptions options;
  options.training = false;
  options.prefetch = config.data.prefetch;
  slabs.loader = std::make_unique<Loader>(*slabs.set, config.data, options);
  return slabs;
}

/// Collective. Rank 0 writes the inner part of each rank's slab.
void write_objects(const Communicator& comm, const Slabs& slabs, long image, const Objects& objects,
                   const ObjectFile* file) {
  const auto core = [&](const Slab& slab) { return (slab.core_end - slab.core_begin) * slabs.row(); };
  const Slab& own = slabs.slab;
  const std::span<const std::uint32_t> inner =
      std::span(objects.labels).subspan((own.core_begin - own.begin) * slabs.row(), core(own));
  if (comm.rank() > 0) comm.send(inner, 0);
  comm.together([&] {
    if (comm.rank() > 0) return;
    std::string error;
    for (int rank = 0; rank < comm.ranks(); ++rank) {
      const Slab slab = slab_of(slabs.extent(), slabs.margin, rank, comm.ranks());
      std::vector<std::uint32_t> labels(inner.begin(), inner.end());
      if (rank > 0) {
        labels.resize(core(slab));
        comm.receive(std::span(labels), rank);
      }
      try {  // all are received, whatever becomes of them
        if (error.empty()) file->write(static_cast<std::uint64_t>(image), slab.core_begin, labels);
      } catch (const Error& failed) {
        error = failed.what();
      }
    }
    HALOGRAD_REQUIRE(error.empty(), error);
  });
}

void segment_images(const SegmentArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  CheckpointHeader checkpoint;
  RunConfig config;
  comm.together([&] {
    HALOGRAD_REQUIRE(arguments.overwrite || !fs::exists(arguments.output), arguments.output,
                     ": exists; --overwrite replaces it");
    checkpoint = read_checkpoint_header(arguments.checkpoint);
    config = parse_config(checkpoint.config, arguments.checkpoint + ", attribute config", arguments.overrides);
    HALOGRAD_REQUIRE(config.flood_filling.on(), arguments.checkpoint,
                     ": holds a network that sees whole images, expected a flood-filling one (flood_filling.view); "
                     "\"halograd predict\" applies others");
    config.data.cache_memory = 0;  // each image is read once
  });
  comm.require_same(arguments.checkpoint + "\n" + arguments.data + "\n" + arguments.output + "\n" + to_toml(config),
                    "checkpoint, data, output or run file");
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);
  Slabs slabs;
  std::unique_ptr<Network> network;
  Replica replica;
  std::unique_ptr<ObjectFile> file;
  comm.together([&] {
    slabs = open_slabs(arguments, config, comm);
    const Shape view = view_of(config.flood_filling, slabs.whole);
    HALOGRAD_REQUIRE(to_string(view) == checkpoint.input, arguments.data, ": fields of view are ", to_string(view),
                     ", expected ", checkpoint.input, ", the input of the network in ", arguments.checkpoint);
    network = build_model(config, view, read_checkpoint_outputs(arguments.checkpoint), 1);
    const bool numbered = std::isdigit(static_cast<unsigned char>(arguments.replica[0])) != 0;
    replica = checkpoint_replica(arguments.checkpoint, *network, numbered ? std::stoi(arguments.replica) : -1);
    if (comm.rank() > 0) return;
    ObjectFileHeader header{arguments.checkpoint, arguments.replica, checkpoint.network, checkpoint.step,
                            checkpoint.epoch,     arguments.data,    versions(),         {}};
    header.extents.push_back(static_cast<std::uint64_t>(slabs.set->size()));
    const auto extents = slabs.whole.extents();
    header.extents.insert(header.extents.end(), extents.begin() + slabs.axis, extents.end());
    file = std::make_unique<ObjectFile>(arguments.output, header);
  });
  std::vector<std::uint32_t> counts;
  ProgressLine line(comm.rank() == 0 && !arguments.json);
  slabs.loader->start_epoch(0);
  for (long image = 0; image < slabs.set->size(); ++image) {
    Objects objects;
    comm.together([&] {
      const Batch* const batch = slabs.loader->next();
      const auto find = [&](bool backwards, double before, double share) {
        SegmentationRules rules = arguments.rules;
        rules.backwards = backwards;
        return segment(
            *network, replica, config.flood_filling, batch->images, slabs.set->shape(), rules, [&](double done) {
              if (line.on_terminal() && !line.too_soon()) {
                line.draw(bar(before + share * done, 40) + format(" image %ld of %ld", image + 1, slabs.set->size()));
              }
            });
      };
      objects = arguments.consensus ? consensus(find(false, 0, 0.5), find(true, 0.5, 0.5), arguments.rules.least_pixels)
                                    : find(false, 0, 1);
    });
    counts.push_back(join_slabs(comm, slabs.extent(), slabs.margin, slabs.row(), objects));
    write_objects(comm, slabs, image, objects, file.get());
  }
  line.clear();
  comm.together([&] {
    if (comm.rank() == 0) file->publish();
  });
  if (comm.rank() != 0) return;
  if (arguments.json) {
    Json object;
    object["output"] = arguments.output;
    object["checkpoint"] = arguments.checkpoint;
    object["replica"] = arguments.replica;
    object["objects"] = counts;
    std::printf("%s\n", json_text(object).c_str());
    return;
  }
  std::printf("%s: %s objects in %s of %s by %s\n", arguments.output.c_str(), listed(counts, " + ").c_str(),
              counted(static_cast<double>(counts.size()), "image").c_str(), arguments.data.c_str(),
              checkpoint.network.c_str());
}

}  // namespace

void add_segment(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SegmentArguments>();
  CLI::App* command = app.add_subcommand("segment", "Find the objects in images by a flood-filling network");
  command->add_option("checkpoint", arguments->checkpoint, "Checkpoint file")->required();
  command->add_option("data", arguments->data, "HDF5 file of images, /test/images")->required();
  command->add_option("--output", arguments->output, "File to write")->required()->type_name("FILE.h5");
  command
      ->add_option("--threshold", arguments->rules.threshold,
                   "An object has the pixels where it is at least so probable (default: 0.6)")
      ->check(CLI::Range(0.01, 0.99));
  command->add_option("--least-pixels", arguments->rules.least_pixels, "Smaller objects are dropped (default: 100)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--consensus", arguments->consensus,
                    "Take the seeds in both orders, and split objects where either segmentation does");
  command->add_option("--replica", arguments->replica, "Replica to use: mean (default), or the number of a rank")
      ->check(CLI::IsMember({"mean"}) | CLI::Range(0, std::numeric_limits<int>::max()));
  command->add_flag("--train-images", arguments->train, "Segment /train/images");
  command
      ->add_option("--set", arguments->overrides,
                   "Set a key of the checkpoint's run file, for example flood_filling.move=2")
      ->type_name("KEY=VALUE");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the output if it exists");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &session] { segment_images(*arguments, session); });
}

}  // namespace halograd
