#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "nn/network.hpp"

namespace halograd {

/// One tensor of a PyTorch state dictionary: float32 `values`, or int64 `integers`.
struct StateTensor {
  std::string name;  ///< "conv1.weight"
  std::vector<long> extents;
  std::vector<float> values;
  std::vector<std::int64_t> integers;
};
using StateDict = std::vector<StateTensor>;

/// The flat buffers of one replica.
struct FlatModel {
  std::vector<float> parameters;
  std::vector<float> statistics;
};

/// Where a tensor of PyTorch's has its values in the flat buffers.
struct TensorMap {
  std::string name;
  std::vector<long> extents;  ///< PyTorch's
  bool statistic = false;
  std::vector<std::size_t> source;  ///< value i is parameter (or statistic) source[i]
};

/// The tensors of a network as a PyTorch module with the same layer names has them, in the network's order
/// (docs/convert.md): convolutions, transposed ones too, (S..., C, K) become (K, C, S...), dense weights (C, K) become
/// (K, C); where a flatten of (S..., C) comes before, PyTorch's flatten of (C, S...) is allowed for. Throws Error,
/// naming the layer, where the network cannot be written so (chain_layers).
std::vector<TensorMap> torch_tensors(const NetworkConfig& config, const Shape& input, const Network& network);

/// Batch-norm's num_batches_tracked, which PyTorch has beside the running statistics, becomes `steps`.
StateDict to_state_dict(const std::vector<TensorMap>& tensors, const FlatModel& model, std::int64_t steps);

/// Throws Error that lists every tensor that is missing, unknown or of other extents. `path` is for the message.
FlatModel from_state_dict(const std::vector<TensorMap>& tensors, const StateDict& state, const std::string& path);

}  // namespace halograd
