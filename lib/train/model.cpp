#include "train/model.hpp"

#include <utility>

#include "convert/layer_chain.hpp"
#include "kernels/error.hpp"
#include "nn/reference_networks.hpp"
#include "train/flood_fill.hpp"

namespace halograd {
namespace {

/// Gives `replica` what `read` puts into the host's copies of its parameters and statistics.
template <class Read>
void load_replica(const Replica& replica, const Read& read) {
  const auto parameters = Kokkos::create_mirror_view(replica.parameters);
  const auto statistics = Kokkos::create_mirror_view(replica.statistics);
  read(parameters, statistics);
  Kokkos::deep_copy(replica.parameters, parameters);
  Kokkos::deep_copy(replica.statistics, statistics);
}

}  // namespace

Shape input_of(const RunConfig& config, const Shape& image) {
  return config.flood_filling.on() ? view_of(config.flood_filling, image) : image;
}

Target target_of(const RunConfig& config, const Dataset& data) {
  Target target(data.classes(), data.whole_labels_per_image(), config.loss);
  target.target_values = data.target_values();
  if (!config.flood_filling.on()) return target;
  const long pixels = data.whole_shape().pixels();
  HALOGRAD_REQUIRE(target.labels_per_image == pixels && target.target_values == 0 && target.classes == 2,
                   "flood_filling needs a label 0 or 1 for each of the ", pixels,
                   " pixels of an image, but the data at ", config.data.path, " have ", target.labels_per_image,
                   " labels an image");
  target.labels_per_image = input_of(config, data.whole_shape()).pixels();
  return target;
}

std::unique_ptr<Network> build_model(const RunConfig& config, const Dataset& data, int largest_batch,
                                     Precision precision, std::unique_ptr<Space> space) {
  return build_model(config, input_of(config, data.whole_shape()), target_of(config, data), largest_batch, precision,
                     std::move(space));
}

std::unique_ptr<Network> build_model(const RunConfig& config, const Shape& input, const Target& target,
                                     int largest_batch, Precision precision, std::unique_ptr<Space> space) {
  return std::make_unique<Network>(config.network, input, target, largest_batch, precision, true, std::move(space));
}

std::unique_ptr<Network> build_model(const RunConfig& config, const Shape& input, int classes, int largest_batch) {
  const NetworkConfig network = expand_network(config.network, outputs_of(Target(classes, 1, config.loss)));
  const Shape outputs = chain_layers(network, input).back().output;
  return std::make_unique<Network>(network, input, target_of(input, outputs, config.loss), largest_batch);
}

void load_mean(const std::string& checkpoint, const Replica& replica) {
  load_replica(replica, [&](const auto& parameters, const auto& statistics) {
    read_checkpoint_mean(checkpoint, parameters, statistics);
  });
}

Replica checkpoint_replica(const std::string& checkpoint, const Network& network, int rank) {
  if (rank < 0) return mean_replica(checkpoint, network);
  Replica replica = network.make_replica(0);
  load_replica(replica, [&](const auto& parameters, const auto& statistics) {
    read_checkpoint_replica(checkpoint, rank, parameters, statistics);
  });
  return replica;
}

Replica mean_replica(const std::string& checkpoint, const Network& network) {
  Replica replica = network.make_replica(0);
  load_mean(checkpoint, replica);
  return replica;
}

}  // namespace halograd
