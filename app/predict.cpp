#include "support/json.hpp"
#include "train/prediction.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/commands.hpp"
#include "app/model_arguments.hpp"
#include "app/shape_argument.hpp"
#include "convert/image_folder.hpp"
#include "kernels/error.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

struct PredictArguments : ModelArguments {
  std::string csv, input, size;
  int top = 5;
  double overlap = 0.25;
};

/// Images without labels; `names` where they are files.
struct Images {
  std::unique_ptr<Dataset> set;
  std::vector<std::string> names;
};

Images open(const PredictArguments& arguments, const DataConfig& config, int channels, const Warn& warn) {
  const fs::path path = arguments.data;
  HALOGRAD_REQUIRE(fs::exists(path), arguments.data, ": no such file or folder");
  const bool files = fs::is_directory(path) && format_found_at(path) == nullptr;
  HALOGRAD_REQUIRE(files || arguments.size.empty(), arguments.data, ": --size applies only to folders of image files");
  if (!files) return {open_images(data_at(arguments.data, config), arguments.chosen_split(), warn), {}};
  const Shape size = arguments.size.empty() ? Shape(0, 0, 0) : parse_size(arguments.size);
  auto folder = std::make_unique<ImageFolder>(path, channels, size.height, size.width);
  std::vector<std::string> names = folder->names();
  return {std::move(folder), std::move(names)};
}

/// Throws Error unless the network takes these images, whole or in tiles.
void require_fitting(const PredictArguments& arguments, const Shape& images, const Network& network) {
  const Shape& input = network.input();
  const bool in_tiles = network.output().pixels() > 1;
  const auto found = images.extents(), least = input.extents();
  bool fits = images.channels == input.channels && images.dimensions == input.dimensions;
  for (std::size_t axis = 0; axis < 3; ++axis)
    fits = fits && (in_tiles ? found[axis] >= least[axis] : found[axis] == least[axis]);
  HALOGRAD_REQUIRE(fits, arguments.data, ": has images of ", to_string(images), ", expected ", to_string(input),
                   in_tiles ? " or larger" : "", ", the input of the network in ", arguments.checkpoint);
}

PredictionHeader header_of(const PredictArguments& arguments, const SavedModel& model, const Network& network,
                           const Images& images) {
  PredictionHeader header;
  const std::string& loss = model.config.loss.name;
  static_cast<ModelOrigin&>(header) = model.origin(arguments);
  header.loss = loss;
  header.dataset = loss_named(loss).predictions->dataset;
  header.classes = loss_named(loss).predictions->of_classes;
  header.extents.push_back(static_cast<std::uint64_t>(images.set->size()));
  if (network.output().pixels() > 1) {
    const auto extents = images.set->shape().extents();
    header.extents.insert(header.extents.end(), extents.end() - images.set->shape().dimensions, extents.end());
  }
  header.extents.push_back(static_cast<std::uint64_t>(network.output().channels));
  header.names = images.names;
  return header;
}

void predict_images(const PredictArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  comm.together([&] {
    HALOGRAD_REQUIRE(arguments.overwrite || arguments.csv.empty() || !fs::exists(arguments.csv), arguments.csv,
                     ": exists; --overwrite replaces it");
    HALOGRAD_REQUIRE(arguments.csv.empty() || fs::is_directory(fs::absolute(arguments.csv).parent_path()),
                     arguments.csv, ": its folder does not exist");
  });
  const SavedModel model = read_model(arguments, comm);
  const RunConfig& config = model.config;
  comm.together([&] {
    HALOGRAD_REQUIRE(!config.flood_filling.on(), arguments.checkpoint,
                     ": holds a flood-filling network, which follows one object; expected \"halograd segment\"");
  });
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);
  Images images;
  std::unique_ptr<Network> network;
  std::optional<Tiling> tiling;
  Replica replica;
  PredictionHeader header;
  comm.together([&] {
    const bool given = !arguments.input.empty();
    const Shape input = parse_shape(given ? arguments.input : model.header.input,
                                    given ? "--input" : arguments.checkpoint + ", attribute input");
    images = open(arguments, config.data, input.channels, node_warning(comm));
    const int largest = (std::max(config.training.batch, comm.ranks()) + comm.ranks() - 1) / comm.ranks();
    network = build_model(config, input, read_checkpoint_outputs(arguments.checkpoint), largest);
    require_fitting(arguments, images.set->shape(), *network);
    header = header_of(arguments, model, *network, images);
    const bool ranked = header.classes && header.extents.size() == 2 && header.extents[1] > 1;
    HALOGRAD_REQUIRE(arguments.csv.empty() || ranked, arguments.checkpoint,
                     ": --csv needs a network with a score per class and one label per image, but its outputs are ",
                     to_string(network->output()), " with loss.name = \"", config.loss.name, "\"");
    tiling.emplace(images.set->shape(), input, arguments.overlap);
    replica = checkpoint_replica(arguments.checkpoint, *network, arguments.rank_of_replica());
  });
  PredictionFile file(comm, arguments.output, header);
  {
    ProgressLine line(comm.rank() == 0 && !arguments.json);
    const char* const what = tiling->tiles() > 1 ? "tiles" : "images";
    predict(comm, *network, replica, {*images.set, config.data, *tiling}, file, [&](long finished, long all) {
      if (line.on_terminal() && !line.too_soon() && all > 0) {
        line.draw(bar(static_cast<double>(finished) / static_cast<double>(all), 40) +
                  format(" %ld of %ld %s on this rank", finished, all, what));
      }
    });
  }
  file.publish();
  const auto ranked =
      static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(arguments.top), header.extents.back()));
  comm.together([&] {
    if (comm.rank() == 0 && !arguments.csv.empty())
      write_top_classes(arguments.output, arguments.csv, ranked, images.names);
  });
  if (comm.rank() != 0) return;
  if (arguments.json) {
    Json object;
    object["output"] = arguments.output;
    if (!arguments.csv.empty()) object["csv"] = arguments.csv;
    object["checkpoint"] = arguments.checkpoint;
    object["replica"] = header.replica;
    object["images"] = images.set->size();
    object["tiles"] = tiling->tiles();
    object["dataset"] = header.dataset;
    object["extents"] = header.extents;
    std::printf("%s\n", json_text(object).c_str());
    return;
  }
  std::printf("%s: %s (%s) for %s by %s, %s%s\n", arguments.output.c_str(), header.dataset.c_str(),
              listed(header.extents, " x ").c_str(), arguments.data.c_str(), header.network.c_str(),
              arguments.rank_of_replica() < 0 ? "the mean of the replicas" : ("replica " + header.replica).c_str(),
              tiling->tiles() > 1 ? format(", in %ld tiles per image", tiling->tiles()).c_str() : "");
  if (!arguments.csv.empty()) std::printf("%s: the best %d classes of each image\n", arguments.csv.c_str(), ranked);
}

}  // namespace

void add_predict(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand("predict", "Predict classes, masks or values of images, which need no labels");
  arguments->add_to(*command, "HDF5 file, IDX file, or folder of IDX, CIFAR, PNG or JPEG files");
  command->add_option("--csv", arguments->csv, "Also write the best classes of each image as a table")
      ->type_name("FILE.csv");
  command->add_option("--top", arguments->top, "Classes per image in the table (default: 5)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--size", arguments->size, "Resize image files to this size (default: all must have the same size)")
      ->type_name("HEIGHTxWIDTH");
  command
      ->add_option("--input", arguments->input,
                   "Shape of an image or tile that the network computes (default: as it was trained)")
      ->type_name(shape_form);
  command
      ->add_option("--overlap", arguments->overlap,
                   "Least share of a tile that neighbouring tiles share, where images are larger than the network's "
                   "input (default: 0.25)")
      ->check(CLI::Range(0.0, 0.9));
  command->callback([arguments, &session] { predict_images(*arguments, session); });
}

}  // namespace halograd
