#include "run/read.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "run/write.hpp"

namespace halograd::read_test {
namespace {

// Enough for a run file without anything else.
const std::string minimal = "data.format = \"synthetic\"\nnetwork.name = \"lenet5\"\n";

RunConfig parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "run.toml", overrides);
}

RunConfig with_layers(const std::string& layers) {
  return parsed("[data]\nformat = \"synthetic\"\n[network]\nname = \"net\"\n" + layers);
}

std::string message_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parsed(text, overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The whole message, so that place, text, caret and hint are held at once.
void expect_message(const std::string& text, const std::string& message) {
  EXPECT_EQ(message_of(text), message);
}

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "expected:\n" << part << "\nin:\n" << message;
}

std::string scratch_folder(const std::string& name) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("halograd_config_" + name + "_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder.string();
}

TEST(ReadConfig, FillsWhatIsGivenAndKeepsDefaults) {
  const auto config = parsed(R"(
name = "trial"
[training]
epochs = 6
seed = 9223372036854775807
[data]
format = "cifar10"
path = "cifar"
mean = [0.5, 1, 0.25]
flip = true
synthetic_shape = [4, 5, 6]
[network]
name = "resnet20"
[optimizer]
learning_rate = 1  # an integer where a number is expected
[schedule]
name = "step"
milestones = [2, 4.5]
)");
  RunConfig expected;
  expected.name = "trial";
  expected.training.epochs = 6;
  expected.training.seed = 9223372036854775807ULL;
  expected.data.format = "cifar10";
  expected.data.path = "cifar";
  expected.data.mean = {0.5, 1, 0.25};
  expected.data.flip = true;
  expected.data.synthetic_shape = {4, 5, 6};
  expected.network.name = "resnet20";
  expected.optimizer.learning_rate = 1;
  expected.schedule.name = "step";
  expected.schedule.milestones = {2, 4.5};
  EXPECT_EQ(config, expected) << to_toml(config);
}

TEST(ReadConfig, LeavesLayersOfAReferenceNetworkToIt) {
  for (const std::string name : {"lenet5", "vgg_small", "resnet20", "resnet18"}) {
    const auto config = parsed("data.format = \"synthetic\"\nnetwork.name = \"" + name + "\"\n");
    EXPECT_EQ(config.network.name, name);
    EXPECT_TRUE(config.network.layers.empty());
  }
}

TEST(ReadConfig, TakesOneNumberForTwo) {
  const auto config = with_layers(
      "[[network.layer]]\ntype = \"conv\"\nchannels = 4\nkernel = 3\nstride = [2, 1]\npadding = 1\ndilation = 2\n");
  const LayerConfig& layer = config.network.layers.at(0);
  EXPECT_EQ(layer.kernel, std::vector<int>{3});
  EXPECT_EQ(layer.stride, (std::vector<int>{2, 1}));
  EXPECT_EQ(layer.padding, std::vector<int>{1});
  EXPECT_EQ(layer.dilation, std::vector<int>{2});
}

TEST(ReadConfig, NumbersLayersByType) {
  const auto config = with_layers(R"(
[[network.layer]]
type = "dense"
channels = 4
[[network.layer]]
type = "relu"
name = "bend"
[[network.layer]]
type = "dense"
channels = 4
[[network.layer]]
type = "relu"
[[network.layer]]
type = "add"
inputs = ["dense2", "input"]
)");
  std::vector<std::string> names;
  for (const auto& layer : config.network.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"dense1", "bend", "dense2", "relu2", "add1"}));
  EXPECT_EQ(config.network.layers.back().inputs, (std::vector<std::string>{"dense2", "input"}));
}

// What the TOML library says itself differs between its versions.
TEST(ReadConfig, SyntaxErrorsShowThePlace) {
  expect_message(
      "name = \"x\"\n[training]\n\tepochs = \n",
      "run.toml:3:11: not valid TOML: a value is missing after \"=\"\n  3 | \tepochs = \n    | \t         ^");
  expect_message("name = trial\n",
                 "run.toml:1:8: not valid TOML: a value is expected here\n  1 | name = trial\n    |        ^\n"
                 "write a string in quotes: \"...\"");
  const auto twice = message_of("[training]\nepochs = 1\nepochs = 2\n");
  expect_part(twice, "run.toml:3:");
  expect_part(twice, "already exists");
  expect_part(twice, "\n  3 | epochs = 2\n    | ");
  const std::vector<std::vector<std::string>> places{
      {"\nname = \"a\" b\n", "run.toml:2:12: not valid TOML: "},
      {"[data]\nmean = [1, x]\n", "run.toml:2:12: not valid TOML: a value is expected here"},
      {"[data]\nmean = [1\n\n", "run.toml:2:"},
      {"name = @\n", "run.toml:1:8: not valid TOML: "},
      {"= 3\n", "run.toml:1:1: not valid TOML: "},
      {"name = 1 b = 2\r\n", "run.toml:1:10: not valid TOML: "}};
  for (const auto& each : places) {
    const auto message = message_of(each[0]);
    expect_part(message, each[1]);
    expect_part(message, "^");
    EXPECT_EQ(message.find("toml::"), std::string::npos) << message;
  }
}

TEST(ReadConfig, UnknownKeysAreSuggestedAndListed) {
  expect_message(
      "[training]\nepoch = 3\n",
      "run.toml:2:1: unknown key \"epoch\" in [training]; did you mean \"epochs\"?\n  2 | epoch = 3\n"
      "    | ^^^^^\n[training] takes: epochs, batch, seed, threads, ranks_per_device, shares, resumed_optimizer, "
      "non_finite, precision, step_recording, time_limit");
  expect_message(
      "[ trainign ]\nepochs = 3\n",
      "run.toml:1:3: unknown key \"trainign\" in the run file; did you mean \"training\"?\n"
      "  1 | [ trainign ]\n    |   ^^^^^^^^\nthe run file takes: name, training, data, network, flood_filling, "
      "loss, optimizer, schedule, averager, topology, parallel, comm, output");
  expect_message("comm = { slots = 3, puts = true }\n",
                 "run.toml:1:21: unknown key \"puts\" in [comm]\n  1 | comm = { slots = 3, puts = true }\n"
                 "    |                     ^^^^\n[comm] takes: force_put, ranks_per_node, slots, progress_us, "
                 "transport, piece_kb, report_seconds, device_windows, inject");
}

TEST(ReadConfig, KeysOfAnotherTableAreSuggested) {
  expect_part(message_of("epoch = 3\n"),
              "unknown key \"epoch\" in the run file; did you mean \"epochs\" in [training]?");
  expect_part(message_of("[training]\nlearning_rate = 3\n"), "; did you mean \"learning_rate\" in [optimizer]?");
  const auto message = message_of("[training]\nzzzzzzzz = 3\n");
  EXPECT_EQ(message.find("did you mean"), std::string::npos) << message;
}

TEST(ReadConfig, WrongTypesSayFoundAndExpected) {
  expect_message(
      "[training]\nepochs = \"ten\"\n",
      "run.toml:2:10: training.epochs: found the string \"ten\", expected an integer\n  2 | epochs = \"ten\"\n"
      "    |          ^^^^^");
  const std::vector<std::vector<std::string>> cases{
      {"training.epochs = 2.5", "training.epochs: found the number 2.5, expected an integer"},
      {"training.seed = true", "training.seed: found true, expected an integer"},
      {"training = 3", "training: found the integer 3, expected a table, [training]"},
      {"data.flip = 1", "data.flip: found the integer 1, expected true or false"},
      {"data.mean = 0.5", "data.mean: found the number 0.5, expected a list of numbers"},
      {"data.mean = [0.5, \"a\"]", "data.mean: found the string \"a\", expected a number"},
      {"data.synthetic_shape = [1.5]", "data.synthetic_shape: found the number 1.5, expected an integer"},
      {"data.objects_field = [2, 2, 2, 2]",
       "data.objects_field has 4 numbers, expected one for all axes, or two or three"},
      {"data.synthetic_shape = 3", "data.synthetic_shape has 1 number, expected one to three extents and the channels"},
      {"name = 2026-01-01", "name: found a date or time, expected a string"},
      {"optimizer.learning_rate = {}", "optimizer.learning_rate: found a table, expected a number"},
      {"network.layer = 3", "network.layer: found the integer 3, expected a list of tables, [[network.layer]]"},
      {"network.layer = [3]", "network.layer: found the integer 3, expected a list of tables, [[network.layer]]"}};
  for (const auto& each : cases) {
    const auto message = message_of(each[0]);
    expect_part(message, "run.toml:1:");
    expect_part(message, each[1]);
    expect_part(message, "^");
  }
}

TEST(ReadConfig, ValuesOutOfRangeAreRefused) {
  expect_message("\n[training]\nepochs = 0\n",
                 "run.toml:3:10: training.epochs is 0, must be at least 1\n  3 | epochs = 0\n    |          ^");
  const std::vector<std::vector<std::string>> cases{
      {"training.batch = 0", "training.batch is 0, must be at least 1"},
      {"training.seed = -1", "training.seed is -1, must be at least 0"},
      {"training.epochs = 3000000000", "training.epochs is 3000000000, must be at most 2147483647"},
      {"training.epochs = 99999999999999999999", "99999999999999999999 does not fit a 64-bit integer"},
      {"training.epochs = 0xffffffffffffffff", "0xffffffffffffffff does not fit a 64-bit integer"},
      {"optimizer.learning_rate = 0", "optimizer.learning_rate is 0, must be above 0"},
      {"optimizer.learning_rate = 1e400", "1e400 does not fit a 64-bit floating-point number"},
      {"optimizer.learning_rate = inf", "optimizer.learning_rate is inf, must be above 0"},
      {"optimizer.momentum = 1", "optimizer.momentum is 1, must be at least 0 and below 1"},
      {"optimizer.beta2 = -0.1", "optimizer.beta2 is -0.1, must be at least 0 and below 1"},
      {"optimizer.weight_decay = nan", "optimizer.weight_decay is nan, must be at least 0"},
      {"data.mean = [inf]", "data.mean is inf, must be finite"},
      {"data.objects_field = [24, 0]", "data.objects_field is 0, must be at least 1"},
      {"data.standard_deviation = [1, 0.0]", "data.standard_deviation is 0, must be above 0"},
      {"data.synthetic_classes = 1", "data.synthetic_classes is 1, must be at least 2"},
      {"schedule.gamma = 0", "schedule.gamma is 0, must be above 0 and at most 1"},
      {"schedule.final_factor = 1.5", "schedule.final_factor is 1.5, must be at least 0 and at most 1"},
      {"comm.slots = 1", "comm.slots is 1, must be at least 2"},
      {"comm.inject.drop_fraction = 1", "comm.inject.drop_fraction is 1, must be at least 0 and below 1"},
      {"output.checkpoint_epochs = -1", "output.checkpoint_epochs is -1, must be at least 0"},
      {"name = \"a/b\"", "name is \"a/b\", may hold only letters, digits, \"_\", \"-\" and, inside, \".\""},
      {"name = \"..\"", "name is \"..\", may hold only"}};
  for (const auto& each : cases) {
    const auto message = message_of(each[0]);
    expect_part(message, "run.toml:1:");
    expect_part(message, each[1]);
  }
}

TEST(ReadConfig, UnknownChoicesAreListed) {
  const std::string message = message_of("[averager]\nname = \"neighbor\"\n");
  expect_part(message,
              "run.toml:2:8: averager.name is \"neighbor\", must be one of \"none\", \"allreduce\", \"neighbour\"");
  expect_part(message, "; did you mean \"neighbour\"?\n  2 | name = \"neighbor\"\n    |        ^^^^^^^^^^");
  expect_part(message_of("data.format = \"png\""),
              "must be one of \"idx\", \"cifar10\", \"cifar100\", \"hdf5\", \"objects\", \"synthetic\"");
}

TEST(ReadConfig, MissingKeysAreNamed) {
  expect_message("[data]\nformat = \"hdf5\"\n[network]\nname = \"lenet5\"\n",
                 "run.toml:1:1: data.path is missing; the format \"hdf5\" needs it\n  1 | [data]\n    | ^^^^^^\n"
                 "for example: path = \"digits.h5\"");
  expect_part(message_of(""), "run.toml: data.path is missing; the format \"idx\" needs it");
  expect_message(
      "data.format = \"synthetic\"\n",
      "run.toml: the run file names no network\ngive [[network.layer]] entries, or one of these as "
      "network.name: lenet5, vgg_small, resnet20, resnet18, resnet50, mobilenet_v2, unet2d, ffn3d, ffn, cosmoflow");
  expect_message(
      "data.format = \"synthetic\"\nnetwork.name = \"lenet\"\n",
      "run.toml:2:16: \"lenet\" is no reference network, and no layers are given; did you mean \"lenet5\"?\n"
      "  2 | network.name = \"lenet\"\n    |                ^^^^^^^\ngive [[network.layer]] entries, or one of "
      "these as network.name: lenet5, vgg_small, resnet20, resnet18, resnet50, mobilenet_v2, unet2d, ffn3d, ffn, "
      "cosmoflow");
  expect_part(message_of(minimal + "[topology]\nkind = \"file\"\n"),
              "run.toml:3:1: topology.file is missing; the kind \"file\" needs it");
  expect_part(message_of(minimal + "schedule.name = \"step\"\n"), "schedule.milestones is missing");
  expect_part(message_of(minimal + "name = \"\"\n"), "the run's name is empty");
}

TEST(ReadConfig, KeysThatContradictEachOtherAreRefused) {
  expect_part(message_of(minimal + "optimizer.nesterov = true\n"),
              "run.toml:3:22: optimizer.nesterov needs optimizer.momentum above 0");
  expect_part(message_of(minimal + "schedule.milestones = [4, 4]\n"), "schedule.milestones must ascend");
}

TEST(ReadConfig, OverridesWinOverTheFile) {
  const auto config = parsed(minimal + "[training]\nepochs = 3\nbatch = 8\n",
                             {"training.epochs=5", "optimizer.learning_rate = 1", "network.name=resnet20",
                              "data.mean=[0.5]", "name=\"a b\"", "name=a-b", "averager={name=\"none\"}"});
  EXPECT_EQ(config.training.epochs, 5);
  EXPECT_EQ(config.training.batch, 8);
  EXPECT_EQ(config.optimizer.learning_rate, 1.0);
  EXPECT_EQ(config.network.name, "resnet20");
  EXPECT_EQ(config.data.mean, std::vector<double>{0.5});
  EXPECT_EQ(config.name, "a-b");
  EXPECT_EQ(config.averager.name, "none");
}

TEST(ReadConfig, AnOverrideMayGiveTheWholeListOfLayers) {
  const auto config = parsed(minimal, {"network.layer=[{type=\"flatten\"}, {type=\"dense\", channels=3}]"});
  ASSERT_EQ(config.network.layers.size(), 2u);
  EXPECT_EQ(config.network.layers[1].name, "dense1");
  EXPECT_EQ(config.network.layers[1].channels, 3);
}

TEST(ReadConfig, OverrideErrorsNameTheOverride) {
  EXPECT_EQ(message_of(minimal, {"training.epoch=3"}),
            "--set training.epoch=3: unknown key \"epoch\" in [training]; did you mean \"epochs\"?\n"
            "  --set | training.epoch=3\n        |          ^^^^^\n[training] takes: epochs, batch, seed, threads, "
            "ranks_per_device, shares, resumed_optimizer, non_finite, precision, step_recording, time_limit");
  expect_part(message_of(minimal, {"training.epochs=0"}),
              "--set training.epochs=0: training.epochs is 0, must be at least 1");
  expect_part(message_of(minimal, {"training.epochs=two"}), "found the string \"two\", expected an integer");
  expect_part(message_of(minimal, {"training.epochs"}), "--set training.epochs: expected key=value");
  expect_part(message_of(minimal, {"=3"}), "--set =3: expected key=value");
  expect_part(message_of(minimal, {"training.epochs="}), "--set training.epochs=: a value is missing");
  expect_part(message_of(minimal, {"training..epochs=3"}), "\"training..epochs\" is not a key");
  expect_part(message_of(minimal, {"data.mean=[1,"}), "--set data.mean=[1,: not valid TOML");
  expect_part(message_of(minimal, {"training.epochs=99999999999999999999"}), "does not fit a 64-bit integer");
  for (const std::string element : {"network.layer.0.kernel=3", "network.layer[0].kernel=3"}) {
    expect_part(message_of(minimal, {element}), "--set " + element + ": a layer's keys cannot be set one by one");
  }
}

TEST(ReadConfig, RelativePathsStartAtTheRunFile) {
  const auto folder = scratch_folder("paths");
  const auto file = folder + "/run.toml";
  std::ofstream(file) << "network.name = \"lenet5\"\n[data]\npath = \"../set/images.h5\"\nformat = \"hdf5\"\n"
                      << "[topology]\nkind = \"file\"\nfile = \"graph.toml\"\n";
  const auto config = read_config(file);
  const auto parent = std::filesystem::path(folder).parent_path().lexically_normal();
  EXPECT_EQ(config.data.path, (parent / "set/images.h5").string());
  EXPECT_EQ(config.topology.file, folder + "/graph.toml");
  EXPECT_EQ(config.output.folder, "runs");

  const auto overridden = read_config(file, {"data.path=here.h5", "topology.file=/there.toml"});
  EXPECT_EQ(overridden.data.path, (std::filesystem::current_path() / "here.h5").string());
  EXPECT_EQ(overridden.topology.file, "/there.toml");

  const auto from_text = parsed("network.name = \"lenet5\"\ndata.path = \"images\"\n");
  EXPECT_EQ(from_text.data.path, "images");
  std::filesystem::remove_all(folder);
}

TEST(ReadConfig, NamesFilesThatCannotBeRead) {
  const auto message = [](const std::string& path) -> std::string {
    try {
      read_config(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("/no/such/run.toml"), "/no/such/run.toml: cannot be opened: No such file or directory");
  EXPECT_EQ(message("/tmp"), "/tmp: is a folder, expected a file");
}

TEST(ReadConfig, RunFilesOfTheRepositoryAreValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HALOGRAD_SOURCE_DIR "/inputs")) {
    if (entry.path().extension() != ".toml" || entry.path().stem() == "topology_example") continue;
    SCOPED_TRACE(entry.path().string());
    const auto config = read_config(entry.path().string());
    EXPECT_EQ(config.name, entry.path().stem().string());
    EXPECT_EQ(parse_config(to_toml(config), "resolved"), config);
    ++count;
  }
  EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace halograd::read_test
