#include "run/layer_keys.hpp"

#include <algorithm>

#include "run/keys.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// The keys that a layer of this type takes; of any type where it is empty.
std::vector<std::string> layer_keys(const std::string& type) {
  if (!type.empty()) {
    LayerConfig layer;
    layer.type = type;
    return keys_of(layer);
  }
  std::vector<std::string> all;
  for (const LayerType& each : layer_types()) {
    for (const auto& key : layer_keys(each.name)) {
      if (std::find(all.begin(), all.end(), key) == all.end()) all.push_back(key);
    }
  }
  return all;
}

/// Throws Error where a key stands in a layer whose type does not take it.
void require_layer_keys(const Node& table, const std::string& type) {
  const auto taken = layer_keys(type);
  for (const Node& item : table.items) {
    if (std::find(taken.begin(), taken.end(), item.key) != taken.end()) continue;
    std::vector<std::string> takers;
    for (const LayerType& each : layer_types()) {
      const auto keys = layer_keys(each.name);
      if (std::find(keys.begin(), keys.end(), item.key) != keys.end()) takers.emplace_back(each.name);
    }
    fail_at(item.key_place,
            "layers of type " + type + " do not take \"" + item.key + "\"; only " + listed(takers) + " do",
            "layers of type " + type + " take: " + listed(taken));
  }
}

}  // namespace

void read_entry(TableReader& reader, LayerConfig& layer) {
  reader.require_known(layer_keys(""));
  if (const Node* type = reader.table().find("type")) reader.set_label("a layer of type " + type->string);
  visit(reader, layer);
  require_layer_keys(reader.table(), layer.type);
}

}  // namespace halograd
