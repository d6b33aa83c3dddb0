#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/shape_argument.hpp"
#include "convert/onnx.hpp"
#include "convert/safetensors.hpp"
#include "convert/state_dict.hpp"
#include "convert/state_dict_hdf5.hpp"
#include "data/dataset.hpp"
#include "hdf5/files.hpp"
#include "io/checkpoint.hpp"
#include "io/formats.hpp"
#include "kernels/error.hpp"
#include "nn/network.hpp"
#include "run/read.hpp"
#include "run/write.hpp"
#include "support/table.hpp"
#include "support/text.hpp"
#include "train/model.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

struct ConvertArguments {
  std::string input, output, run, shape, replica = "mean";
  std::vector<std::string> overrides;
  int classes = 0;
  bool overwrite = false;
};

/// A network with all that its conversion needs.
struct Model {
  RunConfig config;
  Shape input;
  std::unique_ptr<Network> network;
  std::vector<TensorMap> tensors;
};

void build(Model& model, const std::string& shape, const std::string& where, int classes) {
  if (!shape.empty()) model.input = parse_shape(shape, where);
  if (shape.empty() || (classes == 0 && model.config.network.layers.empty())) {
    const auto data = open_dataset(model.config.data, Split::train, 1);
    if (shape.empty()) model.input = input_of(model.config, data->shape());
    if (classes == 0) classes = outputs_of(target_of(model.config, *data));
  }
  model.network = build_model(model.config, model.input, classes, 1);
  model.config.network = model.network->config();
  model.tensors = torch_tensors(model.config.network, model.input, *model.network);
}

HostVector<float> view_of(std::vector<float>& values, std::size_t size) {
  values.resize(size);
  return HostVector<float>(values.data(), values.size());
}

/// What a checkpoint can become, by the ending of the output.
struct ExportFormat {
  const char* name;
  Fact<void (*)(const std::string& path, const Model& model, const StateDict& state,
                const std::map<std::string, std::string>& facts)>
      write;
};

const std::vector<ExportFormat>& export_formats() {
  using Facts = std::map<std::string, std::string>;
  static const std::vector<ExportFormat> formats{
      {".safetensors", [](const std::string& path, const Model&, const StateDict& state,
                          const Facts& facts) { write_safetensors(path, state, facts); }},
      {".h5", [](const std::string& path, const Model&, const StateDict& state,
                 const Facts& facts) { write_state_dict_hdf5(path, state, facts.at("network")); }},
      {".onnx", [](const std::string& path, const Model& model, const StateDict& state, const Facts& facts) {
         std::ofstream file(path, std::ios::binary | std::ios::trunc);
         file << onnx_model(model.config.network, model.input, state, facts) << std::flush;
         HALOGRAD_REQUIRE(file.good(), path, ": cannot be written (is the disk full?)");
       }}};
  return formats;
}

/// A checkpoint into what PyTorch or ONNX reads.
void export_checkpoint(const ConvertArguments& arguments, const std::string& partial) {
  const std::string ending = fs::path(arguments.output).extension().string();
  const ExportFormat* const format = find_row(export_formats(), ending);
  HALOGRAD_REQUIRE(format != nullptr, arguments.output, ": ends in '", ending, "', expected one of ",
                   listed(names_of(export_formats())), " (.safetensors and .h5 are PyTorch state dictionaries)");
  const CheckpointHeader header = read_checkpoint_header(arguments.input);
  Model model;
  model.config = parse_config(header.config, arguments.input + ", attribute config", arguments.overrides);
  const bool given = !arguments.shape.empty();
  build(model, given ? arguments.shape : header.input, given ? "--input" : arguments.input + ", attribute input",
        arguments.classes);
  FlatModel flat;
  const HostVector<float> parameters = view_of(flat.parameters, model.network->parameter_count());
  const HostVector<float> statistics = view_of(flat.statistics, model.network->statistic_count());
  if (arguments.replica == "mean") {
    read_checkpoint_mean(arguments.input, parameters, statistics);
  } else {
    read_checkpoint_replica(arguments.input, std::stoi(arguments.replica), parameters, statistics);
  }
  const StateDict state = to_state_dict(model.tensors, flat, header.step);
  const std::map<std::string, std::string> facts{
      {"network", header.network},
      {"step", std::to_string(header.step)},
      {"replica", arguments.replica},
      {"mean", listed(model.config.data.mean, " ")},
      {"standard_deviation", listed(model.config.data.standard_deviation, " ")}};
  format->write(partial, model, state, facts);
  std::printf("%s: %s, %zu parameters, from %s\n", arguments.output.c_str(), header.network.c_str(),
              model.network->parameter_count(),
              arguments.replica == "mean" ? "the mean of the replicas" : ("replica " + arguments.replica).c_str());
}

/// A state dictionary into a checkpoint of one replica that a training can start from (train --init).
void import_state(const ConvertArguments& arguments, const std::string& partial, bool hdf5, const Communicator& comm) {
  HALOGRAD_REQUIRE(!arguments.run.empty(), arguments.input,
                   ": a state dictionary does not describe its network; give a run file of that network with --config");
  HALOGRAD_REQUIRE(fs::path(arguments.output).extension() == ".h5", arguments.output,
                   ": a state dictionary is converted to a checkpoint; expected a name that ends in .h5");
  Model model;
  model.config = read_config(arguments.run, arguments.overrides);
  build(model, arguments.shape, "--input", arguments.classes);
  const StateDict state = hdf5 ? read_state_dict_hdf5(arguments.input) : read_safetensors(arguments.input);
  FlatModel flat = from_state_dict(model.tensors, state, arguments.input);
  CheckpointHeader header;
  header.ranks = 1;
  header.network = model.config.network.name;
  header.averager = "none";
  header.topology = "none";
  header.config = to_toml(model.config);
  header.versions = versions();
  header.input = to_string(model.input);
  ReplicaState replica;
  replica.parameters = view_of(flat.parameters, model.network->parameter_count());
  replica.statistics = view_of(flat.statistics, model.network->statistic_count());
  write_checkpoint(comm, partial, header, replica, model.network->parameters(), model.network->statistics());
  std::printf("%s: a checkpoint of %s, %zu parameters; start from it with halograd train --init %s\n",
              arguments.output.c_str(), header.network.c_str(), model.network->parameter_count(),
              arguments.output.c_str());
}

bool is_hdf5(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  HALOGRAD_REQUIRE(file.is_open(), path, ": cannot be opened for reading");
  std::string magic(4, '\0');
  file.read(magic.data(), 4);
  return file.good() && magic == "\x89HDF";
}

void convert(const ConvertArguments& arguments, Session& session) {
  const Communicator& comm = session.start_mpi();
  HALOGRAD_REQUIRE(comm.ranks() == 1, "convert runs on one rank, but the number of ranks is ", comm.ranks());
  session.start_kokkos(1);
  HALOGRAD_REQUIRE(arguments.overwrite || !fs::exists(arguments.output), arguments.output,
                   ": exists; --overwrite replaces it");
  const bool hdf5 = is_hdf5(arguments.input);
  const std::string format = hdf5 ? read_format(arguments.input) : "";
  HALOGRAD_REQUIRE(!hdf5 || format == checkpoint_format || format == state_dict_format, arguments.input, ": is a '",
                   format, "', expected a checkpoint or a state dictionary");
  const std::string partial = arguments.output + ".partial";
  try {
    format == checkpoint_format ? export_checkpoint(arguments, partial) : import_state(arguments, partial, hdf5, comm);
    publish_file(partial, arguments.output);
  } catch (...) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    throw;
  }
}

}  // namespace

void add_convert(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command =
      app.add_subcommand("convert", "Convert checkpoints to and from PyTorch state dictionaries, and to ONNX");
  command->add_option("file", arguments->input, "Checkpoint, or state dictionary (.safetensors, .h5)")->required();
  command
      ->add_option(
          "output", arguments->output,
          "File to write: .safetensors, .h5 or .onnx from a checkpoint; a checkpoint (.h5) from a state dictionary")
      ->required();
  command->add_option("--replica", arguments->replica, "Replica to convert: mean, or the number of a rank")
      ->check(CLI::IsMember({"mean"}) | CLI::Range(0, std::numeric_limits<int>::max()));
  command->add_option("--config", arguments->run, "Run file that describes the network of a state dictionary");
  command->add_option("--set", arguments->overrides, "Set a key of the run file")->type_name("KEY=VALUE");
  command
      ->add_option("--input", arguments->shape,
                   "Shape of an image (default: from the checkpoint, or from the data set)")
      ->type_name(shape_form);
  command
      ->add_option("--classes", arguments->classes,
                   "Number of classes of a reference network (default: from the data set)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--overwrite", arguments->overwrite, "Replace the output if it exists");
  command->callback([arguments, &session] { convert(*arguments, session); });
}

}  // namespace halograd
