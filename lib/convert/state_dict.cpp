#include "convert/state_dict.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "convert/layer_chain.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

constexpr const char* tracked = ".num_batches_tracked";

/// Place in our order, pixels of channels, of feature j of PyTorch's, channels of pixels.
long folded_place(long j, long features, long pixels) {
  const long channels = features / pixels;
  return j % pixels * channels + j / pixels;
}

/// Ours (S..., C, K) as PyTorch's (K, C, S...), where K are a convolution's outputs and a transposed one's inputs; a
/// dense layer has no S and may come behind a flatten.
void map_weight(const NamedTensor& tensor, long folded_pixels, TensorMap& map) {
  const auto spatial_end = tensor.extents.end() - 2;
  const long taps = std::accumulate(tensor.extents.begin(), spatial_end, 1L, std::multiplies<>());
  const long channels = tensor.extents[tensor.extents.size() - 2], filters = tensor.extents.back();
  map.extents = {filters, channels};
  map.extents.insert(map.extents.end(), tensor.extents.begin(), spatial_end);
  for (long filter = 0; filter < filters; ++filter)
    for (long channel = 0; channel < channels; ++channel)
      for (long tap = 0; tap < taps; ++tap)
        map.source.push_back(tensor.offset +
                             static_cast<std::size_t>(
                                 (tap * channels + folded_place(channel, channels, folded_pixels)) * filters + filter));
}

void map_vector(const NamedTensor& tensor, long folded_pixels, TensorMap& map) {
  map.extents = tensor.extents;
  const auto features = static_cast<long>(tensor.size());
  for (long j = 0; j < features; ++j)
    map.source.push_back(tensor.offset + static_cast<std::size_t>(folded_place(j, features, folded_pixels)));
}

/// What PyTorch calls a tensor of a layer: normalisations have a scale and a shift here, a weight and a bias there.
std::string torch_name(const std::string& layer, const std::string& tensor) {
  static const std::map<std::string, std::string> others{{"scale", "weight"}, {"shift", "bias"}};
  const auto found = others.find(tensor);
  return layer + "." + (found == others.end() ? tensor : found->second);
}

}  // namespace

std::vector<TensorMap> torch_tensors(const NetworkConfig& config, const Shape& input, const Network& network) {
  std::vector<TensorMap> maps;
  for (const ChainLink& link : chain_layers(config, input)) {
    for (const bool statistic : {false, true}) {
      for (const NamedTensor& tensor : statistic ? network.statistics() : network.parameters()) {
        if (tensor.layer != link.config.name) continue;
        TensorMap& map = maps.emplace_back();
        map.name = torch_name(link.config.name, tensor.name);
        map.statistic = statistic;
        if (tensor.extents.size() >= 2) {
          map_weight(tensor, link.folded_pixels, map);
        } else {  // a value per feature that comes in, or that goes out where the layer mixes them
          const bool mixed = *type_of(link.config).features == Features::mixed;
          map_vector(tensor, mixed ? 1 : link.folded_pixels, map);
        }
      }
    }
  }
  return maps;
}

StateDict to_state_dict(const std::vector<TensorMap>& tensors, const FlatModel& model, std::int64_t steps) {
  StateDict state;
  for (const TensorMap& map : tensors) {
    StateTensor& tensor = state.emplace_back();
    tensor.name = map.name;
    tensor.extents = map.extents;
    const std::vector<float>& from = map.statistic ? model.statistics : model.parameters;
    tensor.values.reserve(map.source.size());
    for (const std::size_t at : map.source) tensor.values.push_back(from[at]);
    constexpr const char* last = ".running_var";
    if (!map.name.ends_with(last)) continue;
    const std::string layer = map.name.substr(0, map.name.size() - std::string(last).size());
    state.push_back({layer + tracked, {}, {}, {steps}});
  }
  return state;
}

FlatModel from_state_dict(const std::vector<TensorMap>& tensors, const StateDict& state, const std::string& path) {
  std::map<std::string, const StateTensor*> found;
  for (const StateTensor& tensor : state) found[tensor.name] = &tensor;
  FlatModel model;
  std::string wrong;
  for (const TensorMap& map : tensors) {
    const auto entry = found.find(map.name);
    if (entry == found.end()) {
      wrong += "\n  missing: " + map.name + " " + "(" + listed(map.extents) + ")";
      continue;
    }
    const StateTensor& tensor = *entry->second;
    found.erase(entry);
    if (tensor.extents != map.extents || tensor.values.size() != map.source.size()) {
      wrong += "\n  " + map.name + " is " + "(" + listed(tensor.extents) + ")" +
               (tensor.integers.empty() ? "" : " of integers") + ", expected " + "(" + listed(map.extents) + ")";
      continue;
    }
    std::vector<float>& to = map.statistic ? model.statistics : model.parameters;
    for (std::size_t i = 0; i < map.source.size(); ++i) {
      to.resize(std::max(to.size(), map.source[i] + 1));
      to[map.source[i]] = tensor.values[i];
    }
  }
  for (const auto& [name, tensor] : found)
    if (!name.ends_with(tracked))
      wrong += "\n  not in the network: " + name + " " + "(" + listed(tensor->extents) + ")";
  HALOGRAD_REQUIRE(wrong.empty(), path, ": is not a state dictionary of this network:", wrong);
  return model;
}

}  // namespace halograd
