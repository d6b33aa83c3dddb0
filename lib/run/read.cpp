#include "run/read.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "config/document.hpp"
#include "config/table_reader.hpp"
#include "data/dataset.hpp"
#include "kernels/error.hpp"
#include "nn/layer_inputs.hpp"
#include "nn/reference_networks.hpp"
#include "run/averager_checks.hpp"
#include "run/keys.hpp"
#include "run/layer_keys.hpp"
#include "support/text.hpp"
#include "support/text_file.hpp"

namespace halograd {

namespace {

/// Where a message about a key points: its value, else its table, else the file.
class Places {
 public:
  Places(const Node& document, std::string name) : document_(document), file_{.file = std::move(name)} {}

  [[nodiscard]] Place of(const std::string& section, const std::string& key) const {
    const Node* table = document_.find(section);
    if (table == nullptr) return file_;
    const Node* value = table->find(key);
    return value == nullptr ? table->place : value->place;
  }

  [[nodiscard]] const std::vector<Node>& layers() const {
    static const std::vector<Node> none;
    const Node* network = document_.find("network");
    const Node* list = network == nullptr ? nullptr : network->find("layer");
    return list == nullptr ? none : list->items;
  }

 private:
  const Node& document_;
  Place file_;
};

/// Gives layers without a name their type and a running number, and refuses names that are taken.
void name_layers(std::vector<LayerConfig>& layers, const std::vector<Node>& nodes) {
  std::map<std::string, int> count;          // of each type
  std::map<std::string, std::size_t> owner;  // of each name
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerConfig& layer = layers[i];
    const int number = ++count[layer.type];
    const bool given = !layer.name.empty();
    if (!given) layer.name = layer.type + std::to_string(number);
    const Node* node = given ? nodes[i].find("name") : nullptr;
    const Place& place = node == nullptr ? nodes[i].place : node->place;
    if (layer.name == images_input) {
      fail_at(place, "the name \"" + layer.name + "\" stands for the images, no layer may have it");
    }
    const auto [same, first] = owner.emplace(layer.name, i);
    if (first) continue;
    const Node& other = nodes[same->second];
    const bool other_given = other.find("name") != nullptr;
    fail_at(place,
            "two layers are called \"" + layer.name + "\"" +
                (given && other_given ? "" : " (one of them by default: its type and number)"),
            "the first stands at " + to_string((other_given ? *other.find("name") : other).place));
  }
}

/// What is wrong with a layer's inputs is told with the line that says so.
void check_inputs(const std::vector<LayerConfig>& layers, const std::vector<Node>& nodes) {
  try {
    (void)resolve_inputs(layers);
  } catch (const LayerInputsError& error) {
    const Node& layer = nodes[error.layer];
    const Node* list = layer.find("inputs");
    const Node& wrong = list == nullptr ? layer : error.input ? list->items[*error.input] : *list;
    fail_at(wrong.place, error.what(), error.hint);
  }
}

void check_network(const NetworkConfig& network, const Places& places) {
  if (!network.layers.empty()) return;
  if (find_row(reference_networks(), network.name) != nullptr) return;
  const std::vector<std::string> known = names_of(reference_networks());
  const std::string ask = "give [[network.layer]] entries, or one of these as network.name: " + listed(known);
  if (network.name.empty()) fail_at(places.of("network", "name"), "the run file names no network", ask);
  fail_at(
      places.of("network", "name"),
      "\"" + network.name + "\" is no reference network, and no layers are given" + did_you_mean(network.name, known),
      ask);
}

/// What only several keys together can tell.
void check(const RunConfig& config, const Places& places) {
  if (config.name.empty()) fail("the run's name is empty; it names the folder that the run is kept in");
  const std::size_t numbers = config.data.synthetic_shape.size();
  if (numbers < 2 || numbers > 4) {
    fail_at(places.of("data", "synthetic_shape"), "data.synthetic_shape has " + std::to_string(numbers) +
                                                      (numbers == 1 ? " number" : " numbers") +
                                                      ", expected one to three extents and the channels");
  }
  const std::size_t extents = config.data.objects_field.size();
  if (extents < 1 || extents > 3) {
    fail_at(places.of("data", "objects_field"), "data.objects_field has " + std::to_string(extents) +
                                                    " numbers, expected one for all axes, or two or three");
  }
  const auto& format = config.data.format;
  const DatasetFormat& kind = row_of(dataset_formats(), format, "data.format");
  if (config.data.path.empty() && kind.path != DataPath::none) {
    fail_at(places.of("data", "path"), "data.path is missing; the format \"" + format + "\" needs it",
            std::string("for example: path = ") +
                (kind.path == DataPath::file ? "\"digits.h5\"" : "\"/path/to/a/folder\""));
  }
  check_network(config.network, places);
  if (config.loss.label_smoothing > 0 && !loss_named(config.loss.name).smooths_labels) {
    fail_at(places.of("loss", "label_smoothing"),
            "loss.label_smoothing is for cross-entropies; the loss is \"" + config.loss.name + "\"");
  }
  if (row_of(config.topology).from_file && config.topology.file.empty()) {
    fail_at(places.of("topology", "file"),
            "topology.file is missing; the kind \"" + config.topology.kind + "\" needs it");
  }
  if (const auto conflict = averager_conflict(config)) {
    fail_at(places.of(conflict->section, conflict->key), conflict->message, conflict->hint);
  }
  if (config.optimizer.nesterov && config.optimizer.momentum == 0) {
    fail_at(places.of("optimizer", "nesterov"), "optimizer.nesterov needs optimizer.momentum above 0");
  }
  const auto& milestones = config.schedule.milestones;
  if (milestones.empty() && row_of(schedules(), config.schedule.name, "schedule.name").needs_milestones) {
    fail_at(places.of("schedule", "name"),
            "schedule.milestones is missing; the schedule \"" + config.schedule.name + "\" needs it",
            "for example: milestones = [60, 120]");
  }
  if (std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>()) != milestones.end()) {
    fail_at(places.of("schedule", "milestones"), "schedule.milestones must ascend");
  }
}

RunConfig parse(const std::string& text, const std::string& name, const std::string& folder,
                const std::vector<std::string>& overrides) {
  Node document = parse_document(text, name);
  for (const auto& each : overrides) apply_override(document, each);
  RunConfig config;
  read_table(document, "the run file", folder, config);
  const Places places(document, name);
  name_layers(config.network.layers, places.layers());
  check_inputs(config.network.layers, places.layers());
  check(config, places);
  return config;
}

}  // namespace

RunConfig read_config(const std::string& path, const std::vector<std::string>& overrides) {
  const std::string text = read_text(path);
  return parse(text, path, std::filesystem::absolute(path).parent_path().string(), overrides);
}

RunConfig parse_config(const std::string& text, const std::string& name, const std::vector<std::string>& overrides) {
  return parse(text, name, "", overrides);
}

}  // namespace halograd
