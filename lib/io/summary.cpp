#include "io/summary.hpp"

#include <algorithm>
#include <cmath>

#include "hdf5/objects.hpp"
#include "io/checkpoint_layout.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

/// The mean of the replicas as /mean holds it; tensors with a wrong checksum are named in `damaged`.
std::vector<float> summarize_mean(const Hdf5File& file, const std::string& path, CheckpointSummary& summary) {
  std::vector<float> parameters(static_cast<std::size_t>(summary.parameters)), values;
  for (const MeanTensor& mean : read_mean_tensors(file, path)) {
    values.resize(mean.count);
    try {
      read_mean_tensor(file, mean, values.data(), path);
    } catch (const MachineError&) {
      throw;
    } catch (const Error&) {
      summary.damaged.push_back("/mean/" + mean.tensor.layer + "/" + mean.tensor.name);
    }
    summary.tensors.push_back({mean.tensor, mean.statistic, norm_of(values)});
    if (mean.statistic) continue;
    HALOGRAD_REQUIRE(mean.tensor.offset <= parameters.size() && mean.count <= parameters.size() - mean.tensor.offset,
                     path, ": /mean/", mean.tensor.layer, "/", mean.tensor.name, " does not fit the replica's length");
    std::copy(values.begin(), values.end(), parameters.begin() + static_cast<std::ptrdiff_t>(mean.tensor.offset));
  }
  return parameters;
}

}  // namespace

CheckpointSummary summarize_checkpoint(const std::string& path) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  CheckpointSummary summary;
  summary.header = read_header(file, path);
  const CheckpointLayout layout = read_layout(file, path);
  summary.parameters = layout.parameters;
  summary.optimizer_buffers = layout.optimizer_buffers;
  summary.statistics = layout.statistics;
  for (const StateLayout& state : layout.averager) summary.averager_state.push_back(state.name);
  const std::vector<float> mean = summarize_mean(file, path, summary);
  double squares = 0;
  const auto compare = [&](std::size_t dataset, std::int64_t /*row*/, std::int64_t /*part*/, const Numbers& values) {
    if (dataset != 0) return;  // the first are the parameters
    const auto row = std::get<std::span<float>>(values);
    std::vector<float> replica(row.begin(), row.end());
    const double norm = norm_of(replica);
    for (std::size_t i = 0; i < replica.size(); ++i) replica[i] -= mean[i];
    summary.replicas.push_back({norm, norm_of(replica)});
    squares += summary.replicas.back().distance * summary.replicas.back().distance;
  };
  for (const std::string& row : read_every_row(file, layout, 0, 1, compare, path)) summary.damaged.push_back(row);
  summary.consensus_distance = std::sqrt(squares / static_cast<double>(layout.ranks));
  return summary;
}

}  // namespace halograd
