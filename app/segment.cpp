#include "train/segmentation.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "app/commands.hpp"
#include "app/model_arguments.hpp"
#include "data/loader.hpp"
#include "io/object_file.hpp"
#include "kernels/error.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

struct SegmentArguments : ModelArguments {
  SegmentationRules rules;
  bool consensus = false;
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
  const auto slab_box = [&](const Shape& whole) {
    slabs.whole = whole;
    slabs.axis = 3 - whole.dimensions;
    slabs.margin = view_of(config.flood_filling, whole).extents()[slabs.axis];
    slabs.slab = slab_of(slabs.extent(), slabs.margin, comm.rank(), comm.ranks());
    Box box = Box::whole(whole);
    box.begin[slabs.axis] = slabs.slab.begin;
    box.end[slabs.axis] = slabs.slab.end;
    return box;
  };
  const DataConfig data = data_at(arguments.data, config.data);
  slabs.set = open_images(data, arguments.chosen_split(), node_warning(comm), slab_box);
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
    const auto write = [&](const Slab& slab, std::span<const std::uint32_t> labels) {
      try {  // all are received, whatever becomes of them
        if (error.empty()) file->write(static_cast<std::uint64_t>(image), slab.core_begin, labels);
      } catch (const Error& failed) {
        error = failed.what();
      }
    };
    write(own, inner);
    std::vector<std::uint32_t> labels;
    for (int rank = 1; rank < comm.ranks(); ++rank) {
      const Slab slab = slab_of(slabs.extent(), slabs.margin, rank, comm.ranks());
      labels.resize(core(slab));
      comm.receive(std::span(labels), rank);
      write(slab, labels);
    }
    HALOGRAD_REQUIRE(error.empty(), error);
  });
}

void segment_images(const SegmentArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  const SavedModel model = read_model(arguments, comm);
  const RunConfig& config = model.config;
  comm.together([&] {
    HALOGRAD_REQUIRE(config.flood_filling.on(), arguments.checkpoint,
                     ": holds a network that sees whole images, expected a flood-filling one (flood_filling.view); "
                     "\"halograd predict\" applies others");
  });
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);
  Slabs slabs;
  std::unique_ptr<Network> network;
  Replica replica;
  std::unique_ptr<ObjectFile> file;
  comm.together([&] {
    slabs = open_slabs(arguments, config, comm);
    const Shape view = view_of(config.flood_filling, slabs.whole);
    HALOGRAD_REQUIRE(to_string(view) == model.header.input, arguments.data, ": fields of view are ", to_string(view),
                     ", expected ", model.header.input, ", the input of the network in ", arguments.checkpoint);
    network = build_model(config, view, read_checkpoint_outputs(arguments.checkpoint), 1);
    replica = checkpoint_replica(arguments.checkpoint, *network, arguments.rank_of_replica());
    if (comm.rank() > 0) return;
    ObjectFileHeader header{model.origin(arguments), {}};
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
              model.header.network.c_str());
}

}  // namespace

void add_segment(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SegmentArguments>();
  CLI::App* command = app.add_subcommand("segment", "Find the objects in images by a flood-filling network");
  arguments->add_to(*command, "HDF5 file of images");
  command
      ->add_option("--threshold", arguments->rules.threshold,
                   "An object has the pixels where it is at least so probable (default: 0.6)")
      ->check(CLI::Range(0.01, 0.99));
  command->add_option("--least-pixels", arguments->rules.least_pixels, "Smaller objects are dropped (default: 100)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--consensus", arguments->consensus,
                    "Take the seeds in both orders, and split objects where either segmentation does");
  command->callback([arguments, &session] { segment_images(*arguments, session); });
}

}  // namespace halograd
