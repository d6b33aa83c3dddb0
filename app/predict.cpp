#include "support/json.hpp"
#include "train/prediction.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "app/commands.hpp"
#include "app/shape_argument.hpp"
#include "convert/image_folder.hpp"
#include "io/checkpoint.hpp"
#include "kernels/error.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"
#include "train/node_warning.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

/// What --split may be.
struct SplitChoice {
  const char* name;
  Fact<Split> split;
};
constexpr SplitChoice split_choices[] = {{"test", Split::test}, {"train", Split::train}};

struct PredictArguments {
  std::string checkpoint, data, output, csv, input, size, split = "test", replica = "mean";
  std::vector<std::string> overrides;
  int top = 5;
  double overlap = 0.25;
  bool overwrite = false;
  bool json = false;
};

/// The rank whose replica is used; below 0: the mean of all.
int rank_of(const PredictArguments& arguments) {
  return std::isdigit(static_cast<unsigned char>(arguments.replica[0])) != 0 ? std::stoi(arguments.replica) : -1;
}

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
  if (!files)
    return {open_images(data_at(arguments.data, config), row_of(split_choices, arguments.split, "--split").split, warn),
            {}};
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

PredictionHeader header_of(const PredictArguments& arguments, const CheckpointHeader& checkpoint,
                           const std::string& loss, const Network& network, const Images& images) {
  PredictionHeader header;
  header.checkpoint = arguments.checkpoint;
  header.replica = arguments.replica;
  header.network = checkpoint.network;
  header.step = checkpoint.step;
  header.epoch = checkpoint.epoch;
  header.data = arguments.data;
  header.loss = loss;
  header.versions = versions();
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

/// A bar on a terminal.
class PredictionProgress {
 public:
  PredictionProgress(bool shown, long images) : line_(shown), images_(images) {}
  void operator()(long done) {
    if (!line_.on_terminal() || line_.too_soon() || images_ == 0) return;
    line_.draw(bar(static_cast<double>(done) / static_cast<double>(images_), 40) +
               format(" %ld of %ld images on this rank", done, images_));
  }

 private:
  ProgressLine line_;
  long images_;
};

void predict_images(const PredictArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  CheckpointHeader checkpoint;
  RunConfig config;
  comm.together([&] {
    for (const std::string& path : {arguments.output, arguments.csv})
      HALOGRAD_REQUIRE(arguments.overwrite || path.empty() || !fs::exists(path), path,
                       ": exists; --overwrite replaces it");
    HALOGRAD_REQUIRE(arguments.csv.empty() || fs::is_directory(fs::absolute(arguments.csv).parent_path()),
                     arguments.csv, ": its folder does not exist");
    checkpoint = read_checkpoint_header(arguments.checkpoint);
    config = parse_config(checkpoint.config, arguments.checkpoint + ", attribute config", arguments.overrides);
    HALOGRAD_REQUIRE(!config.flood_filling.on(), arguments.checkpoint,
                     ": holds a flood-filling network, which follows one object; expected \"halograd segment\"");
    config.data.cache_memory = 0;  // each image is read once
  });
  comm.require_same(arguments.checkpoint + "\n" + arguments.data + "\n" + arguments.output + "\n" + to_toml(config),
                    "checkpoint, data, output or run file");
  session.start_kokkos(config.training.threads, config.training.ranks_per_device);
  Images images;
  std::unique_ptr<Network> network;
  std::unique_ptr<Loader> loader;
  std::optional<Tiling> tiling;
  Replica replica;
  PredictionHeader header;
  comm.together([&] {
    const bool given = !arguments.input.empty();
    const Shape input = parse_shape(given ? arguments.input : checkpoint.input,
                                    given ? "--input" : arguments.checkpoint + ", attribute input");
    images = open(arguments, config.data, input.channels, node_warning(comm));
    LoaderOptions options = evaluation_options(config, comm);
    const int largest = (options.global_batch + comm.ranks() - 1) / comm.ranks();
    network = build_model(config, input, read_checkpoint_outputs(arguments.checkpoint), largest);
    require_fitting(arguments, images.set->shape(), *network);
    header = header_of(arguments, checkpoint, config.loss.name, *network, images);
    const bool ranked = header.classes && header.extents.size() == 2 && header.extents[1] > 1;
    HALOGRAD_REQUIRE(arguments.csv.empty() || ranked, arguments.checkpoint,
                     ": --csv needs a network with a score per class and one label per image, but its outputs are ",
                     to_string(network->output()), " with loss.name = \"", config.loss.name, "\"");
    tiling.emplace(images.set->shape(), input, arguments.overlap);
    options.global_batch =
        std::max<int>(1, largest / static_cast<int>(std::min<long>(largest, tiling->tiles()))) * comm.ranks();
    loader = std::make_unique<Loader>(*images.set, config.data, options);
    replica = checkpoint_replica(arguments.checkpoint, *network, rank_of(arguments));
  });
  PredictionFile file(comm, arguments.output, header);
  {
    PredictionProgress show(comm.rank() == 0 && !arguments.json, images.set->size() / comm.ranks());
    predict(comm, *network, replica, *loader, *tiling, file, [&](long done) { show(done); });
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
              rank_of(arguments) < 0 ? "the mean of the replicas" : ("replica " + header.replica).c_str(),
              tiling->tiles() > 1 ? format(", in %ld tiles per image", tiling->tiles()).c_str() : "");
  if (!arguments.csv.empty()) std::printf("%s: the best %d classes of each image\n", arguments.csv.c_str(), ranked);
}

}  // namespace

void add_predict(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand("predict", "Write what a checkpoint's network says of images without labels");
  command->add_option("checkpoint", arguments->checkpoint, "Checkpoint file")->required();
  command->add_option("data", arguments->data, "HDF5 file, IDX file, or folder of IDX, CIFAR, PNG or JPEG files")
      ->required();
  command->add_option("--output", arguments->output, "File to write")->required()->type_name("FILE.h5");
  command->add_option("--csv", arguments->csv, "Also write the best classes of each image as a table")
      ->type_name("FILE.csv");
  command->add_option("--top", arguments->top, "Classes per image in the table (default: 5)")
      ->check(CLI::PositiveNumber);
  command->add_option("--replica", arguments->replica, "Replica to use: mean (default), or the number of a rank")
      ->check(CLI::IsMember({"mean"}) | CLI::Range(0, std::numeric_limits<int>::max()));
  command->add_option("--split", arguments->split, "Images of a set that has both (default: test)")
      ->check(CLI::IsMember(names_of(split_choices)));
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
  command
      ->add_option("--set", arguments->overrides,
                   "Set a key of the checkpoint's run file, for example training.batch=8")
      ->type_name("KEY=VALUE");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the output if it exists");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &session] { predict_images(*arguments, session); });
}

}  // namespace halograd
